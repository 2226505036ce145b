package clientlimit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/internal/advice"
)

// isRefusal reports whether a limit is the reason of an answer: it is 429, or
// 403 with advice as GitHub sends it. Such a request was not executed.
func isRefusal(status int, a advice.Advice) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return a.RetryAfter > 0 || slices.ContainsFunc(a.Quotas, func(q advice.Quota) bool { return q.Left == 0 })
	}
	return false
}

// isBusy reports whether the service is not available and says for how long.
// Anthropic has a status of its own for that.
func isBusy(status int, a advice.Advice) bool {
	return (status == http.StatusServiceUnavailable || status == statusOverloaded) && a.RetryAfter > 0
}

const statusOverloaded = 529

// mayRepeat reports whether a request may be sent again that may have been
// executed.
func (c *config) mayRepeat(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return c.retryOf != nil && c.retryOf(r)
}

// neverSent reports whether err says that there was no connection to send a
// request on.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// canRewind reports whether the body of a request can be sent again.
func canRewind(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// prepare makes the request of an attempt, with its body from the start. The
// caller's own must not change.
func (x *exchange) prepare(attempt int) (err error) {
	if x.first.GetBody == nil || x.first.Body == nil || x.first.Body == http.NoBody {
		return nil
	}
	body := x.first.Body
	if attempt > 1 {
		if body, err = x.first.GetBody(); err != nil {
			return err
		}
		if body == nil { // then the transport says what is wrong
			body = http.NoBody
		}
	}
	x.body = &readBody{ReadCloser: body}
	req := *x.first
	req.Body = x.body
	x.req = &req
	return nil
}

// readBody is the body of a request. It knows whether it was read: then a part
// of the request was sent, whatever its error says, which can be the body's own.
type readBody struct {
	io.ReadCloser
	read atomic.Bool
}

func (b *readBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.ReadCloser.Read(p)
}

const (
	// discardBytes and discardFor bound what is read of a body that nobody
	// wants, so that its connection can be used again.
	discardBytes = 64 << 10
	discardFor   = 100 * time.Millisecond
)

// discard ends a body that nobody wants.
func discard(body io.ReadCloser) {
	stop := time.AfterFunc(discardFor, func() { body.Close() }) // a Read that hangs ends by that
	_, _ = io.CopyN(io.Discard, body, discardBytes)
	if stop.Stop() {
		body.Close()
	}
}
