package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePagesFilesAreServedWithTheirTypesAndAStrictPolicy(t *testing.T) {
	d := serve(t)
	n := 0
	require.NoError(t, fs.WalkDir(os.DirFS("page"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, ".go") {
			return err
		}
		n++
		at := "/" + strings.TrimSuffix(name, "index.html")
		resp, err := http.Get(d.url + at)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, at)
		require.NotEmpty(t, resp.Header.Get("Content-Type"), at)
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), at)
		policy := resp.Header.Get("Content-Security-Policy")
		require.NotContains(t, policy, "unsafe", at)
		for _, part := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			require.Contains(t, policy, part, at)
		}
		return nil
	}))
	require.GreaterOrEqual(t, n, 4)
}

func TestAForeignNameGetsNothing(t *testing.T) {
	d := serve(t)
	for method, path := range map[string]string{http.MethodPost: "/api/reset", http.MethodGet: "/events", http.MethodDelete: "/api/scenarios"} {
		q, err := http.NewRequestWithContext(t.Context(), method, d.url+path, nil)
		require.NoError(t, err)
		q.Host = "evil.com"
		q.Header.Set("Origin", "http://evil.com")
		resp, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		var text bytes.Buffer
		_, err = text.ReadFrom(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusForbidden, resp.StatusCode, path)
		require.Contains(t, text.String(), "open it as localhost")
	}
}
