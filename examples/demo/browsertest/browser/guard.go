package browser

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// guard stands between a page and its server, and adds a script before the page's own. No browser but chromium can be
// asked for that. The script tells the guard what must not happen, and finds elements by role and name.
type guard struct {
	url string

	mu  sync.Mutex
	bad []string
}

//go:embed guard.js
var script string

const (
	scriptPath  = "/browsertest.js"
	problemPath = "/browsertest.problem"
)

func newGuard(t *testing.T, target *url.URL, slow bool) *guard {
	t.Helper()
	g := &guard{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // which the page's Origin has too
			if isPage(r.In.URL) {
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: g.add,
		// A server that is gone breaks the connection, as without a guard.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if slow {
			time.Sleep(roundTrip)
			w = slowWriter{w}
		}
		proxy.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET "+scriptPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, script)
	})
	mux.HandleFunc("POST "+problemPath, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.bad = append(g.bad, string(text))
	})
	front := httptest.NewServer(mux)
	g.url = front.URL
	t.Cleanup(func() {
		front.CloseClientConnections() // of streams that do not end
		front.Close()
	})
	return g
}

// roundTrip and perByte are those of a slow phone's network.
const (
	roundTrip = 150 * time.Millisecond
	perByte   = time.Second / 200_000
)

// slowWriter writes as slowly as that network.
type slowWriter struct{ http.ResponseWriter }

func (w slowWriter) Write(p []byte) (int, error) {
	time.Sleep(perByte * time.Duration(len(p)))
	return w.ResponseWriter.Write(p)
}

// Unwrap lets the proxy flush each event of a stream.
func (w slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// isPage reports whether what a server has at u may be a page.
func isPage(u *url.URL) bool {
	return strings.HasSuffix(u.Path, "/") || strings.HasSuffix(u.Path, ".html")
}

// add puts the script first into a page.
func (g *guard) add(resp *http.Response) error {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !isPage(resp.Request.URL) {
		return nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), "<head>")
	if !found && resp.StatusCode == http.StatusOK {
		g.mu.Lock()
		g.bad = append(g.bad, "the page has no <head> that tests could add a script to")
		g.mu.Unlock()
	}
	if found {
		text = fmt.Appendf(nil, `%s<head><script src="%s"></script>%s`, before, scriptPath, after)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	resp.ContentLength = int64(len(text))
	resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

func (g *guard) problems() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bad
}
