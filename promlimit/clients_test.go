package promlimit_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// always is a service that answers all requests alike.
type always struct{ status int }

func (a always) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Retry-After": {"3600"}}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func TestClientsAreCounted(t *testing.T) {
	metrics := promlimit.New()
	for name, status := range map[string]int{"github": http.StatusOK, "gitlab": http.StatusTooManyRequests} {
		client := &http.Client{Transport: clientlimit.New(always{status}, clientlimit.WithName(name), clientlimit.WithObserver(metrics.ObserveClient))}
		for range 2 {
			if res, err := client.Get("http://a/"); err == nil {
				res.Body.Close()
			}
		}
	}
	require.NoError(t, testutil.CollectAndCompare(metrics, strings.NewReader(`
# HELP ratelimit_client_requests_total What happened to requests of clients: sent, sent-again, refused, paused, turned-away.
# TYPE ratelimit_client_requests_total counter
ratelimit_client_requests_total{client="github",event="sent"} 2
ratelimit_client_requests_total{client="gitlab",event="paused"} 1
ratelimit_client_requests_total{client="gitlab",event="refused"} 1
ratelimit_client_requests_total{client="gitlab",event="sent"} 1
ratelimit_client_requests_total{client="gitlab",event="turned-away"} 1
`), "ratelimit_client_requests_total"))
}
