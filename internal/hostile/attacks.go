package hostile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// attacks are what every app must survive.
var attacks = []struct {
	name   string
	attack func(t *testing.T, a *target)
	waits  bool // for the server's timeouts, so others may wait meanwhile
}{
	{"made-up keys", madeUpKeys, false},
	{"others' names", othersNames, false},
	{"HEAD and unknown paths", unknownPaths, false},
	{"aborted requests", aborted, false},
	{"unfinished requests", unfinished, true},
	{"bodies that grow", growing, false},
	{"slow readers", slowReaders, true},
	{"many connections", manyConnections, true},
}

// Claim has a request say, in all fields in which apps may believe it, that it
// comes from somebody else.
func Claim(r *http.Request, who, address string) {
	for _, name := range []string{"X-User", "X-User-Id", "X-Tenant", "X-Organisation", "X-Customer", "X-Session", "Mcp-Session-Id"} {
		r.Header.Set(name, who)
	}
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip"} {
		r.Header.Set(name, address)
	}
	r.Header.Set("Forwarded", "for="+address)
	r.Header.Set("X-Plan", "pro")
	r.AddCookie(&http.Cookie{Name: "session", Value: who})
	q := r.URL.Query()
	for _, name := range []string{"user", "tenant", "organisation", "plan", "api_key"} {
		q.Set(name, who)
	}
	r.URL.RawQuery = q.Encode()
}

// A client that makes up a key, and an address, for each request gets no more
// than its own address may have, and is denied in the end.
func madeUpKeys(t *testing.T, a *target) {
	got := guess(t, a.PerAddress+20, func(key string) *http.Request { return a.Request(key) },
		func(r *http.Request) int { return a.send(t, attackerIP, r) })
	require.LessOrEqual(t, got.passed, a.Anonymous, "made-up keys passed")
	require.Positive(t, got.denied, "nothing limits those who guess at keys")
	a.wantServed(t)
}

type guesses struct{ passed, denied int }

// guess sends n requests, each with a key and claims of its own.
func guess(t *testing.T, n int, request func(key string) *http.Request, send func(*http.Request) int) (got guesses) {
	t.Helper()
	for i := range n {
		r := request(fmt.Sprintf("made-up-%d", i))
		Claim(r, fmt.Sprintf("made-up-%d", i), fmt.Sprintf("203.0.113.%d", i%250))
		switch status := send(r); {
		case status == http.StatusTooManyRequests:
			got.denied++
		case passed(status):
			got.passed++
		case status >= 500:
			t.Fatalf("a made-up key was answered with %d", status)
		}
	}
	return got
}

// Guess sends n requests through send, which returns the status of the answer.
// Each has a key, names and an address that are made up. It returns how many
// passed, and how many were denied with 429.
func Guess(t *testing.T, n int, request func(key string) *http.Request, send func(*http.Request) int) (passed, denied int) {
	t.Helper()
	got := guess(t, n, request, send)
	return got.passed, got.denied
}

// A client with a key of its own that claims to be others, at other addresses,
// uses up its own limits and nobody else's.
func othersNames(t *testing.T, a *target) {
	n := 0
	for i := range a.PerKey + 20 {
		r := a.Request(a.Attacker)
		Claim(r, a.Victim, victimIP)
		if i%2 == 1 {
			Claim(r, fmt.Sprint("made-up-", i), fmt.Sprint("203.0.113.", i))
		}
		if passed(a.send(t, attackerIP, r)) {
			n++
		}
	}
	require.LessOrEqual(t, a.worked(n), a.PerKey, "claims got more than the key has")
	require.Positive(t, n, "the premise: the key is served")
	a.wantServed(t)
}

// Requests for what is not there, and HEAD, cost their own client: each kind of
// them alike.
func unknownPaths(t *testing.T, a *target) {
	kinds := []func(r *http.Request, i int){
		func(r *http.Request, i int) { r.Method, r.Body, r.ContentLength = http.MethodHead, nil, 0 },
		func(r *http.Request, i int) { r.URL.Path = fmt.Sprint("/made-up/", i) },
		func(r *http.Request, i int) { r.Method, r.URL.Path = http.MethodOptions, fmt.Sprint("/made-up/", i) },
		func(r *http.Request, i int) { r.URL.Path += "/" },
		func(r *http.Request, i int) { r.URL.Path = "/./" + r.URL.Path },
		func(r *http.Request, i int) { r.Method = http.MethodPatch },
	}
	for i := range a.PerAddress + 20 {
		r := a.Request("")
		kinds[i%len(kinds)](r, i)
		a.send(t, attackerIP, r)
	}
	for kind, change := range kinds {
		r := a.Request("")
		change(r, kind)
		require.Equalf(t, http.StatusTooManyRequests, a.send(t, attackerIP, r), "%s %s is outside of the limits", r.Method, r.URL.Path)
	}
	a.wantServed(t)
}

// Who hangs up before the answer, or at its beginning, gets nothing back.
func aborted(t *testing.T, a *target) {
	n := 0
	for i := range 2*a.PerKey + 20 {
		c := a.dial(t)
		r := a.Request(a.Attacker)
		body := ""
		if r.Body != nil {
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			body = string(b)
		}
		_, err := c.Write([]byte(raw(r, body, fmt.Sprintf("Content-Length: %d\r\n", len(body)))))
		require.NoError(t, err)
		if i%2 == 1 { // half of them read the status first
			line, _ := bufio.NewReader(c).ReadString('\n')
			if strings.Contains(line, " 200 ") {
				n++
			}
		}
		_ = c.SetLinger(0) // a reset
		_ = c.Close()
	}
	require.LessOrEqual(t, a.worked(n), a.PerKey, "requests that were aborted")
	a.wantServed(t)
}

// Headers and bodies that never end are cut off, and hold up nobody.
func unfinished(t *testing.T, a *target) {
	for i := range 60 {
		r := a.Request(a.Attacker)
		text := raw(r, "", "")
		text = text[:len(text)-2-i%5] // the header has no end
		if i%2 == 1 {
			r.Method = http.MethodPost
			text = raw(r, "{", "Content-Length: 1000\r\n")
		}
		_, err := a.dial(t).Write([]byte(text))
		require.NoError(t, err)
	}
	a.wantServed(t)
	a.wantClosed(t)
}

// unpacked is how much a body of 47 KiB becomes, which bounds of bodies as they
// are sent let pass.
const unpacked = 48 << 20

var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range unpacked / len(zeros) {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return b.Bytes()
})

// Bodies that become large when they are unpacked, or have no end, take no
// memory, whether or not their client has a key.
func growing(t *testing.T, a *target) {
	packed := bomb()
	for _, key := range []string{"", "made-up", a.Attacker} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, coding := range []string{"gzip", "x-gzip", "gzip, gzip"} {
			r := a.Request(key)
			r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(packed)), int64(len(packed))
			r.Header.Set("Content-Encoding", coding)
			status := a.send(t, attackerIP, r)
			require.Falsef(t, passed(status) && key != a.Attacker, "key %q: %d", key, status)
		}
		endless := new(zeros)
		r := a.Request(key)
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(endless), -1
		status := a.send(t, attackerIP, r)
		require.Lessf(t, endless.sent.Load(), int64(16<<20), "key %q: the app reads bodies without a bound", key)
		require.Falsef(t, passed(status), "a body of a GiB was answered with %d", status)
		runtime.ReadMemStats(&after)
		require.Lessf(t, after.TotalAlloc-before.TotalAlloc, uint64(unpacked/2), "key %q: the app unpacks without a bound", key)
	}
	a.wantServed(t)
}

// zeros is a body of a GiB. The client may still read it when the answer has
// come.
type zeros struct{ sent atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.sent.Add(int64(len(p))) > 1<<30 {
		return 0, io.EOF
	}
	clear(p)
	return len(p), nil
}

// Answers that nobody reads are cut off. Each client sends requests until the
// server's buffers are full of answers.
func slowReaders(t *testing.T, a *target) {
	const readers = 4
	var writing sync.WaitGroup
	t.Cleanup(writing.Wait) // after the connections were closed
	for range readers {
		r := a.Request(a.Attacker)
		r.Method = http.MethodGet
		text := []byte(strings.Repeat(raw(r, "", ""), 100))
		c := a.dial(t)
		writing.Go(func() {
			for err := error(nil); err == nil; {
				_, err = c.Write(text)
			}
		})
	}
	require.Eventually(t, func() bool { return a.conns.accepted.Load() >= readers }, patience, poll)
	a.wantServed(t)
	a.wantClosed(t)
}

// Connections that send nothing are closed, and leave room for others.
func manyConnections(t *testing.T, a *target) {
	for range 300 {
		a.dial(t)
	}
	require.Eventually(t, func() bool { return a.conns.accepted.Load() >= 300 }, patience, poll)
	a.wantServed(t)
	a.wantClosed(t)
}
