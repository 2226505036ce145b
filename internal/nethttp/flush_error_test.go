package nethttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// A handler that streams learns by the error of a flush that its client has
// gone.
func TestErrorOfAFlushReachesTheHandler(t *testing.T) {
	var status nethttp.Status
	for hook, w := range map[string]http.ResponseWriter{
		"Watch":  status.Watch(brokenWriter{httptest.NewRecorder()}),
		"OnSent": nethttp.OnSent(brokenWriter{httptest.NewRecorder()}, func() bool { return false }, func(int) {}),
	} {
		require.ErrorIs(t, http.NewResponseController(w).Flush(), errGone, hook)
	}
}

var errGone = errors.New("the client has gone")

// brokenWriter can't flush, and says so as net/http's own writer does.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) FlushError() error { return errGone }
