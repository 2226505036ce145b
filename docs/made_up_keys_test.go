package docs_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A client that makes up a key for each request gets what its address may have,
// or nothing if the program knows its keys. The modules of gRPC, Connect and
// tool servers test their examples.
func TestMadeUpKeysGetNoMoreThanTheirAddress(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]struct {
		method, path string
		address      core.Limit // the zero value: no made-up key passes
	}{
		"readme_3":          {http.MethodGet, "/", core.Limit{}},
		"middleware_1":      {http.MethodGet, "/reports", core.PerMinute(300).WithBurst(40)},
		"language_models_1": {http.MethodPost, "/generate", core.Limit{}},
		"example_gin":       {http.MethodGet, "/search", core.PerMinute(5)},
		"example_echo":      {http.MethodGet, "/", core.PerMinute(20)},
		"example_echo_v5":   {http.MethodGet, "/", core.PerMinute(20)},
		"example_chi":       {http.MethodGet, "/items/7", core.Limit{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddr(t)
			if _, ok := recipes[name]; ok {
				serve(t, recipeCommand(t, name, addr), addr)
			} else {
				run := command(t, name, addr, "-addr", addr)
				run.Env = append(run.Env, "REDIS_URL=redis://"+redistest.Start(t).Addr)
				serve(t, run, addr)
			}

			passed, start := 0, time.Now()
			for i := range 100 {
				r, err := http.NewRequestWithContext(t.Context(), program.method, "http://"+addr+program.path, nil)
				require.NoError(t, err)
				for _, name := range []string{"X-Api-Key", "X-User", "X-Tenant", "X-Organisation"} {
					r.Header.Set(name, fmt.Sprint("made-up-", i))
				}
				r.Header.Set("X-Plan", "pro")
				resp, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				switch resp.StatusCode {
				case http.StatusTooManyRequests, http.StatusBadRequest, http.StatusUnauthorized:
				case http.StatusOK, http.StatusNotFound: // the recipe has no route
					passed++
				default:
					t.Fatalf("status %d", resp.StatusCode)
				}
			}
			if program.address.Capacity == 0 {
				require.Zero(t, passed)
				return
			}
			require.NotZero(t, passed)
			require.LessOrEqual(t, int64(passed), program.address.MaxIn(time.Since(start)))
		})
	}
}
