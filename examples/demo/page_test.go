package main

import (
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePagesFilesAreServedWithTheirTypesAndAStrictPolicy(t *testing.T) {
	d := serve(t)
	n := 0
	require.NoError(t, fs.WalkDir(pageFiles, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		n++
		at := strings.TrimSuffix(strings.TrimPrefix(name, "page"), "index.html")
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
