package docs_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/hostile"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A client that makes up a key for each request passes nowhere, and is denied by
// its address if the program is a whole one. The examples test themselves.
func TestMadeUpKeysPassNowhere(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]struct {
		method, path string
		address      bool // limits addresses in front
	}{
		"readme_3":          {http.MethodGet, "/", true},
		"middleware_1":      {http.MethodGet, "/reports", true},
		"middleware_5":      {http.MethodPost, "/upload", false},
		"language_models_1": {http.MethodPost, "/generate", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddr(t)
			if _, ok := recipes[name]; ok {
				serve(t, recipeCommand(t, name, addr), addr)
			} else {
				run := command(t, name, addr)
				run.Env = append(run.Env, "REDIS_URL=redis://"+redistest.Start(t).Addr)
				serve(t, run, addr)
			}
			passed, denied := hostile.Guess(t, 200, func(key string) *http.Request {
				r := httptest.NewRequest(program.method, "http://"+addr+program.path, nil)
				r.Header.Set("X-Api-Key", key)
				return r
			}, send(t))
			require.Zero(t, passed)
			require.Equal(t, program.address, denied > 0)
		})
	}
}

// send returns a function that sends a request and returns the status of its
// answer.
func send(t *testing.T) func(*http.Request) int {
	c := hostile.Client(t, "127.0.0.1")
	return func(r *http.Request) int {
		r.RequestURI = ""
		resp, err := c.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
}

// The login of a recipe gives a token back for the right password alone: the
// status is that of a redirect either way.
func TestTheRecipeOfALoginCountsFailures(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	serve(t, recipeCommand(t, "middleware_4", addr), addr)
	send := send(t)
	login := func(password string) int {
		r := httptest.NewRequest(http.MethodPost, "http://"+addr+"/login", strings.NewReader("user=ann&password="+password))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return send(r)
	}
	for range 10 {
		require.Equal(t, http.StatusSeeOther, login("right"))
	}
	for range 5 {
		require.Equal(t, http.StatusSeeOther, login("wrong"))
	}
	require.Equal(t, http.StatusTooManyRequests, login("right"))
}

// The recipe by bytes and objects charges what a body is, before the work, and
// reads no more than its bound.
func TestTheRecipeByBytesAndObjects(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	serve(t, recipeCommand(t, "middleware_5", addr), addr)
	send := send(t)
	post := func(path, key, body string, length int64) int {
		r := httptest.NewRequest(http.MethodPost, "http://"+addr+path, bytes.NewReader([]byte(body)))
		r.ContentLength = length
		r.Header.Set("X-Api-Key", key)
		return send(r)
	}
	kib := strings.Repeat("x", 1024)
	require.Equal(t, http.StatusUnauthorized, post("/upload", "made-up", "x", 1))
	require.Equal(t, http.StatusOK, post("/upload", "ann-secret", strings.Repeat(kib, 60), 60<<10))
	require.Equal(t, http.StatusOK, post("/upload", "ann-secret", strings.Repeat(kib, 10), -1), "costs 64")
	require.Equal(t, http.StatusOK, post("/upload", "ann-secret", strings.Repeat(kib, 4), 4<<10), "60, 64 and 4 are 128")
	require.Equal(t, http.StatusTooManyRequests, post("/upload", "ann-secret", "x", 1))
	require.Equal(t, http.StatusRequestEntityTooLarge, post("/upload", "bob-secret", strings.Repeat(kib, 65), -1))

	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"id":1},`, n), ",") + "]" }
	for _, step := range []struct {
		key, body string
		want      int
	}{
		{"ann-secret", list(99), http.StatusOK},
		{"ann-secret", list(2), http.StatusTooManyRequests},
		{"ann-secret", list(1), http.StatusOK},
		{"ann-secret", list(0), http.StatusTooManyRequests}, // it costs one
		{"bob-secret", `[{"id":1},`, http.StatusBadRequest},
		{"bob-secret", `{}`, http.StatusBadRequest},
		{"bob-secret", list(10_000), http.StatusBadRequest},
		{"bob-secret", list(101), http.StatusTooManyRequests},
		{"made-up", list(1), http.StatusUnauthorized},
	} {
		require.Equal(t, step.want, post("/items", step.key, step.body, int64(len(step.body))), step.body[:min(len(step.body), 20)])
	}
}
