package clientlimit_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
)

func TestReadRefusal(t *testing.T) {
	const s = time.Second
	for what, c := range map[string]struct {
		res  *http.Response
		body string
		want clientlimit.Refusal
	}{
		"200":                      {respond(200, "Retry-After", "5"), "", clientlimit.Refusal{}},
		"429":                      {respond(429), "", clientlimit.Refusal{Kind: clientlimit.Refused}},
		"429 with Retry-After":     {respond(429, "Retry-After", "1.5"), "", clientlimit.Refusal{Kind: clientlimit.Refused, After: 1500 * time.Millisecond}},
		"429 with Retry-After-Ms":  {respond(429, "Retry-After", "2", "Retry-After-Ms", "20"), "", clientlimit.Refusal{Kind: clientlimit.Refused, After: 20 * time.Millisecond}},
		"429 with nothing left":    {respond(429, "RateLimit", `"a";r=3;t=60, "b";r=0;t=7`), "", clientlimit.Refusal{Kind: clientlimit.Refused, After: 7 * s}},
		"OpenAI's old code":        {respond(429), `{"error": {"message": "…", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}}`, clientlimit.Refusal{Kind: clientlimit.RefusedForGood}},
		"OpenAI's codes":           {respond(429, "Retry-After", "1"), `{"error": {"type": "x", "code": "project_spend_limit_exceeded"}}`, clientlimit.Refusal{Kind: clientlimit.RefusedForGood}},
		"OpenAI's rate limit":      {respond(429, "Retry-After", "1"), `{"error": {"type": "requests", "code": "rate_limit_exceeded"}}`, clientlimit.Refusal{Kind: clientlimit.Refused, After: s}},
		"Anthropic's spend limit":  {respond(429), `{"type": "error", "error": {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}}`, clientlimit.Refusal{Kind: clientlimit.RefusedForGood}},
		"Google's number for code": {respond(429), `{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{}]}}`, clientlimit.Refusal{Kind: clientlimit.Refused}},
		"X-Should-Retry":           {respond(429, "X-Should-Retry", "false"), "", clientlimit.Refusal{Kind: clientlimit.RefusedForGood}},
		"a body that is cut off":   {respond(429), `{"error": {"code": "insufficient_quo`, clientlimit.Refusal{Kind: clientlimit.Refused}},
		"a text that has the code": {respond(429), `{"message": "insufficient_quota"}`, clientlimit.Refusal{Kind: clientlimit.Refused}},
		"403":                      {respond(403), `{"message": "Forbidden"}`, clientlimit.Refusal{}},
		"403 with something left":  {respond(403, "X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "60"), "", clientlimit.Refusal{}},
		"403 with nothing left":    {respond(403, "X-RateLimit-Remaining", "0"), "", clientlimit.Refusal{Kind: clientlimit.Refused}},
		"GitHub's secondary limit": {respond(403, "X-RateLimit-Remaining", "4990"), `{"message": "You have exceeded a secondary rate limit."}`, clientlimit.Refusal{Kind: clientlimit.Refused, After: time.Minute, All: true}},
		"GitHub's, with 429":       {respond(429, "X-RateLimit-Remaining", "4990", "X-RateLimit-Reset", "60"), `{"message": "You have exceeded a secondary rate limit."}`, clientlimit.Refusal{Kind: clientlimit.Refused, After: time.Minute, All: true}},
		"GitHub's, with a time":    {respond(403, "Retry-After", "90"), `{"message": "You have exceeded a secondary rate limit."}`, clientlimit.Refusal{Kind: clientlimit.Refused, After: 90 * s, All: true}},
		"Discord's global limit":   {respond(429, "Retry-After", "3", "X-RateLimit-Global", "true", "X-RateLimit-Scope", "global"), `{"global": true}`, clientlimit.Refusal{Kind: clientlimit.Refused, After: 3 * s, All: true}},
		"Discord's shared limit":   {respond(429, "Retry-After", "3", "X-RateLimit-Scope", "shared"), `{"global": false}`, clientlimit.Refusal{Kind: clientlimit.Refused, After: 3 * s}},
		"another page's words":     {respond(404), "secondary rate limit", clientlimit.Refusal{}},
		"503":                      {respond(503, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5"), "", clientlimit.Refusal{}},
		"503 with Retry-After":     {respond(503, "Retry-After", "5"), "", clientlimit.Refusal{Kind: clientlimit.Unavailable, After: 5 * s}},
	} {
		if got := clientlimit.ReadRefusal(c.res, []byte(c.body)); got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// An app says what is a refusal and until when, and the caller still gets the
// whole body.
func TestAnAppReadsRefusals(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	for kind, want := range map[clientlimit.RefusalKind]int{clientlimit.NotRefused: 1, clientlimit.RefusedForGood: 1, clientlimit.Refused: 2, clientlimit.Unavailable: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(but(saying(200, long), map[int]reply{1: saying(418, long)}))
			client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithRefusal(func(res *http.Response, start []byte) clientlimit.Refusal {
				if res.StatusCode == http.StatusOK {
					return clientlimit.Refusal{}
				}
				if string(start) != long[:16<<10] {
					t.Errorf("%d bytes: want the first 16 KiB", len(start))
				}
				return clientlimit.Refusal{Kind: kind, After: 3 * time.Second}
			}))}
			res := must(client.Post("http://a/", "text/plain", strings.NewReader("order 7")))
			body, err := io.ReadAll(res.Body)
			if string(body) != long || err != nil || len(s.at()) != want {
				t.Errorf("kind %d: %d bytes, %v, calls at %v: want the whole body after %d calls", kind, len(body), err, s.at(), want)
			}
			if want == 2 && s.at()[1] < 3*time.Second {
				t.Errorf("calls at %v: want the second after the pause", s.at())
			}
			_, _ = get(t.Context(), t, client, "a")
			pauses := kind == clientlimit.Refused || kind == clientlimit.Unavailable
			if took := time.Since(s.start); pauses && took < 3*time.Second || !pauses && took > 0 {
				t.Errorf("kind %d: the next request went after %v", kind, time.Since(s.start))
			}
		})
	}
}

// hangingBody has no end, until it is closed.
type hangingBody struct{ closed chan struct{} }

func (b hangingBody) Read([]byte) (int, error) { <-b.closed; return 0, net.ErrClosed }
func (b hangingBody) Close() error             { close(b.closed); return nil }

// zeros are a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
func (zeros) Close() error               { return nil }

// A refusal whose body hangs, or never ends, is sent again in time, and leaves
// its slot.
func TestBodiesOfRefusalsAreBounded(t *testing.T) {
	for what, body := range map[string]func() io.ReadCloser{
		"hangs":      func() io.ReadCloser { return hangingBody{make(chan struct{})} },
		"never ends": func() io.ReadCloser { return zeros{} },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(but(say(200), map[int]reply{1: func() *http.Response {
				res := respond(429, "Retry-After", "2")
				res.Body = &watchedBody{ReadCloser: body()}
				return res
			}}))
			client, _ := oneSlot(s)
			status, err := get(t.Context(), t, client, "a")
			if err != nil || status != 200 || s.at()[1] > 3300*time.Millisecond || s.bodies[0].closed == 0 {
				t.Errorf("%s: %d, %v, calls at %v: want the second after the pause, and the first body closed", what, status, err, s.at())
			}
		})
	}
}
