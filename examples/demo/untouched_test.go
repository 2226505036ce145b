//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/examples/demo/page"
)

var write = flag.Bool("write", false, "write page/untouched.json")

// A page without a server begins with what the demo says when nobody has asked
// anything: the picture is there before the program.
func TestThePageKnowsTheUntouchedDemo(t *testing.T) {
	const file = "page/untouched.json"
	d, err := newDemo(inProcess(), "127.0.0.1")
	require.NoError(t, err)
	t.Cleanup(d.close)
	g, stream := d.greet(t.Context())
	d.hub.leave(stream)
	g.Now = 1000
	for i := range g.Buckets {
		g.Buckets[i].At = 0
	}
	g.Past = nil
	g.Place, g.Through, g.Redis = "the limiter is loading: 2 MB, once", throughInPage, power{Up: true, Text: redisInPage}
	answers := map[string]json.RawMessage{}
	for _, stage := range []string{"drain", "share", "lose", "yours"} {
		path := "/api/code/" + stage + "?framework="
		a := answerOf(d.mux, httptest.NewRequest(http.MethodGet, path+"http", nil))
		require.Equal(t, http.StatusOK, a.status)
		answers[path] = a.body.Bytes()
	}
	var now bytes.Buffer
	lines := json.NewEncoder(&now)
	lines.SetEscapeHTML(false)
	lines.SetIndent("", " ")
	require.NoError(t, lines.Encode(map[string]any{"hello": g, "answers": answers}))
	if *write {
		require.NoError(t, os.WriteFile(file, now.Bytes(), 0o644))
	}
	there, err := os.ReadFile(file)
	require.NoError(t, err)
	require.JSONEq(t, now.String(), string(there), "to bring it up to date: go test -run Untouched ./examples/demo -write")
}

// What the page says in other words without a server is there to be said.
func TestThePageOfFiles(t *testing.T) {
	f, err := page.NewFiles()
	require.NoError(t, err)
	require.NotContains(t, f.Body, "server")
	require.NotRegexp(t, `(href|src)="/`, f.Body, "a site stands below any path")
	require.NotContains(t, f.Script, "fetch(", "the page asks its worker alone")
}
