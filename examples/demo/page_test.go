//go:build !js

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A browser asks for one page with its style, and one script, which are small, and may do nothing else.
func TestThePageIsSmallAndStrict(t *testing.T) {
	d := serve(t)
	sent := 0
	for path, contentType := range map[string]string{"/": "text/html", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml"} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, nil)
		require.NoError(t, err)
		q.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		sent += len(body)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.Contains(t, resp.Header.Get("Content-Type"), contentType, path)
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), path)
		require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"), path)
		policy := resp.Header.Get("Content-Security-Policy")
		require.NotContains(t, policy, "unsafe", path)
		for _, part := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			require.Contains(t, policy, part, path)
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(body))
		require.NoError(t, err)
		text, err := io.ReadAll(unzipped)
		require.NoError(t, err)
		_, plain := call(t, d, http.MethodGet, path, nil)
		require.Equal(t, string(text), plain, "the same without gzip")
		if path == "/" {
			require.Regexp(t, "<noscript>.*/gin/limited.*</noscript>", plain, "without JavaScript the page says what it is")
		}
	}
	require.Less(t, sent, 30_000, "bytes to the first picture")
	t.Logf("%d bytes to the first picture", sent)
}

// What a page is told at first is small, also after a chapter has played.
func TestTheGreetingIsSmall(t *testing.T) {
	t.Parallel()
	d := serve(t)
	playedOut(t, d, "share", "play", order{})
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/events", nil)
	require.NoError(t, err)
	q.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	sent := &counting{Reader: resp.Body}
	unzipped, err := gzip.NewReader(sent)
	require.NoError(t, err)
	line, plain := bufio.NewReader(unzipped), 0
	for text := ""; text != "\n"; plain += len(text) {
		text, err = line.ReadString('\n')
		require.NoError(t, err)
	}
	require.Greater(t, plain, 50_000, "premise: it tells of a chapter")
	require.Less(t, sent.n, 15_000, "bytes of the greeting")
}

// counting counts what is read.
type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += n
	return n, err
}

func TestAForeignNameGetsNothing(t *testing.T) {
	d := serve(t)
	for method, path := range map[string]string{http.MethodPost: "/api/run/drain/burst", http.MethodGet: "/events", http.MethodDelete: "/api/run/drain"} {
		q, err := http.NewRequestWithContext(t.Context(), method, d.url+path, nil)
		require.NoError(t, err)
		q.Host = "evil.com"
		q.Header.Set("Origin", "http://evil.com")
		resp, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusForbidden, resp.StatusCode, path)
		require.Contains(t, string(text), "open it as localhost")
	}
}
