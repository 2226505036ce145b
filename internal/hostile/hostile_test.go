package hostile_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

// flaws are what an attack finds in an app, by what its failure says.
var flaws = map[string]struct{ attack, says string }{
	"":                         {"", ""},
	"nothing by address":       {"made-up keys", "nothing limits those who guess at keys"},
	"a key of a field":         {"made-up keys", "made-up keys passed"},
	"every proxy is believed":  {"made-up keys", "nothing limits those who guess at keys"},
	"claims are believed":      {"others' names", "claims got more than the key has"},
	"one bucket in front":      {"HEAD and unknown paths", "the victim got 429"},
	"routes alone are limited": {"HEAD and unknown paths", "is outside of the limits"},
	"tokens come back":         {"aborted requests", "requests that were aborted"},
	"bodies have no bound":     {"bodies that grow", "reads bodies without a bound"},
	"bodies are unpacked":      {"bodies that grow", "unpacks without a bound"},
	"no timeout":               {"many connections", "the server has no ReadHeaderTimeout"},
}

// flawed is an app with one flaw.
func flawed(flaw string, store core.Store) hostile.App {
	limiter := func(name string, n int) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(n)}}))
	}
	verified := func(r *http.Request) (string, error) {
		switch key, claim := r.Header.Get("X-Api-Key"), r.Header.Get("X-User"); {
		case flaw == "claims are believed" && claim != "":
			return core.JoinKey("user", claim), nil
		case key == "ann" || key == "bob" || flaw == "a key of a field" && key != "":
			return core.JoinKey("user", key), nil
		default:
			return "", core.ErrNoKey
		}
	}
	options := []httplimit.Option{}
	if flaw == "tokens come back" {
		options = append(options, httplimit.WithRefund(func(*http.Request, int) bool { return true }))
	}
	mux := http.NewServeMux()
	mux.Handle("POST /", httplimit.New(limiter("user", 10), verified, options...)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if flaw == "bodies are unpacked" && r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		if flaw == "bodies have no bound" {
			_, _ = io.Copy(io.Discard, body)
		}
		if _, err := io.ReadAll(body); err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
		}
	})))
	var handler http.Handler = mux
	if flaw != "bodies have no bound" {
		handler = http.MaxBytesHandler(handler, 64<<10)
	}
	byIP := httplimit.ByIP()
	switch flaw {
	case "every proxy is believed":
		byIP = httplimit.ByIP(core.TrustProxies("127.0.0.0/8"))
	case "one bucket in front":
		byIP = httplimit.Global("all")
	}
	perAddress := httplimit.New(limiter("address", 40), byIP, httplimit.WithSkip(func(r *http.Request) bool {
		return flaw == "routes alone are limited" && r.Method != http.MethodPost
	}))
	if flaw != "nothing by address" {
		handler = perAddress(handler)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, IdleTimeout: time.Second,
	}
	if flaw == "no timeout" {
		server.ReadHeaderTimeout = 0
	}
	return hostile.App{
		Server: server, Attacker: "ann", Victim: "bob", PerKey: 10, PerAddress: 40,
		Request: func(key string) *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello"))
			r.Header.Set("X-Api-Key", key)
			return r
		},
	}
}

// TestFlawed is the program of TestEachAttackFindsItsFlaw.
func TestFlawed(t *testing.T) {
	flaw, set := os.LookupEnv("FLAW")
	if !set {
		t.Skip("TestEachAttackFindsItsFlaw runs it")
	}
	hostile.Run(t, func(_ *testing.T, store core.Store) hostile.App { return flawed(flaw, store) })
}

func TestEachAttackFindsItsFlaw(t *testing.T) {
	t.Parallel()
	for flaw, found := range flaws {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			test := exec.Command(os.Args[0], "-test.run", "^TestFlawed$/^"+strings.ReplaceAll(found.attack, " ", "_")+"$")
			if flaw == "" {
				test.Args[2] = "^TestFlawed$"
			}
			test.Env = append(os.Environ(), "FLAW="+flaw)
			out, err := test.CombinedOutput()
			if flaw == "" {
				assert.NoError(t, err, string(out))
				return
			}
			assert.Error(t, err, "the attack found nothing")
			assert.Contains(t, string(out), found.says)
		})
	}
}
