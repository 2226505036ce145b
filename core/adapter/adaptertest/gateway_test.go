package adaptertest_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
)

func TestGatewayAnswersAsTheCallWas(t *testing.T) {
	answers := []adaptertest.Answer{
		{Status: adaptertest.StatusOf(0), Body: "remaining 1", Header: http.Header{"Ratelimit": {`"a";r=1`}}},
		{Status: adaptertest.StatusOf(adaptertest.CodeOf(http.StatusTooManyRequests)), Body: "exceeded", Limits: []string{"a"}, RetryAfter: 1100 * time.Millisecond},
		{Status: http.StatusTeapot, Body: "mine", Own: true},
		{Gone: true},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	app := adaptertest.App[struct{}]{}
	for _, path := range []string{"/0", "/1", "/2", "/3"} {
		app.Routes = append(app.Routes, adaptertest.Route[struct{}]{Method: http.MethodGet, Pattern: path})
	}
	served := make(chan error, 1)
	go func() {
		served <- adaptertest.Gateway(l, app, func(_ *http.Request, route int) adaptertest.Answer { return answers[route] })
	}()
	get := func(path string) (*http.Response, string, error) {
		res, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			return nil, "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res, string(body), err
	}

	res, body, err := get("/0")
	require.NoError(t, err)
	assert.Equal(t, []any{200, "remaining 1", `"a";r=1`}, []any{res.StatusCode, body, res.Header.Get("RateLimit")})
	res, body, err = get("/1")
	require.NoError(t, err)
	assert.Equal(t, []any{429, "2", "no-store"}, []any{res.StatusCode, res.Header.Get("Retry-After"), res.Header.Get("Cache-Control")})
	assert.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"exceeded","status":429,"violated-policies":["a"]}`, body)
	res, body, err = get("/2")
	require.NoError(t, err)
	assert.Equal(t, []any{418, "mine"}, []any{res.StatusCode, body})
	_, _, err = get("/3")
	assert.Error(t, err, "a call whose client left has no response")
	assert.Equal(t, http.StatusServiceUnavailable, adaptertest.StatusOf(1), "of a call whose context has ended")

	require.NoError(t, l.Close())
	assert.Error(t, <-served, "it serves until Accept fails")
}
