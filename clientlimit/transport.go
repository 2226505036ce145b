package clientlimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/core"
)

// RoundTrip sends a request when its limits allow it, and again if it may and
// the service asks for it. It implements [http.RoundTripper]: an error means
// that there is no answer, and the request's body is closed in any case.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchange{t: t, first: req, req: req}
	res, err := x.run(req.Context())
	if err != nil && !x.sent && req.Body != nil {
		_ = req.Body.Close()
	}
	return res, err
}

// exchange is the attempts to have one request answered.
type exchange struct {
	t     *Transport
	first *http.Request // the caller's
	key   string
	units core.Units

	attempt int           // from 1
	waited  time.Duration // in all
	req     *http.Request // that is sent next
	body    *readBody     // of req; nil: first has none that can be sent again
	sent    bool          // so the body of first is closed
}

// run makes attempts until the answer is the caller's.
func (x *exchange) run(ctx context.Context) (res *http.Response, err error) {
	if x.key, err = x.t.keyOf(x.first); err != nil {
		return nil, err
	}
	if x.t.units != nil {
		if x.units, err = x.t.units(x.first); err != nil {
			return nil, err
		}
	}
	path := ""
	if x.first.URL != nil {
		path = x.first.URL.Path
	}
	for again := true; again; {
		x.attempt++
		began := time.Now()
		c, err := x.t.enter(ctx, x.key, path, x.units, x.t.maxWait-x.waited)
		if err != nil {
			return nil, err
		}
		x.waited += time.Since(began)
		if res, again, err = x.try(c); err != nil && !again {
			return nil, err
		}
	}
	return res, nil
}

// try makes one attempt. again says that another one follows.
func (x *exchange) try(c *call) (res *http.Response, again bool, err error) {
	noted := false
	defer func() {
		if !noted { // a function of the app has panicked
			c.lost()
			c.end(nil)
		}
	}()
	if err = x.prepare(); err != nil {
		noted = true
		c.lost()
		c.unsent()
		return nil, false, fmt.Errorf("clientlimit: GetBody: %w", err)
	}
	x.sent = true
	if res, err = x.t.send(x.req); err != nil {
		noted = true
		again, err = x.failed(c, err)
		return nil, again, err
	}
	a, r := x.t.read(res)
	noted = true
	return res, x.answered(c, res, a, r), nil
}

// prepare makes the request of an attempt, with its body from the start. The
// caller's own must not change.
func (x *exchange) prepare() (err error) {
	if x.first.GetBody == nil || x.first.Body == nil || x.first.Body == http.NoBody {
		return nil
	}
	body := x.first.Body
	if x.attempt > 1 {
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

// send sends a request. Whatever next does, there is an error or an answer with
// a body.
func (t *Transport) send(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	switch {
	case err != nil:
		return nil, err
	case res == nil:
		return nil, fmt.Errorf("clientlimit: %T returned neither an answer nor an error", t.next)
	case res.Body == nil: // of a fake
		res.Body = http.NoBody
	}
	return res, nil
}

// read reads what an answer says of limits.
func (t *Transport) read(res *http.Response) (advice.Advice, Refusal) {
	a := advice.Read(res.Header, time.Now())
	var start []byte
	switch status := res.StatusCode; {
	case t.refusal != nil:
		if status >= http.StatusBadRequest {
			start = readStart(res)
		}
		return a, t.refusal(res, start)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && strings.Contains(res.Header.Get("Content-Type"), "json"):
		start = readStart(res)
	}
	return a, readRefusal(res, start, a)
}

// answered takes in an answer. It reports whether the request is to be sent
// again; otherwise the answer is the caller's.
func (x *exchange) answered(c *call, res *http.Response, a advice.Advice, r Refusal) (again bool) {
	switch r.Kind {
	case Refused, Unavailable:
		until := c.refused(r, a)
		again = x.mayRepeat(r.Kind == Refused) && x.inTime(until)
	case RefusedForGood:
		c.lost()
	default:
		c.served(a)
		x.t.follow(c, res)
		return false
	}
	if again {
		readStart(res) // so that its connection can be used again
		_ = res.Body.Close()
	}
	c.end(returned(c.units))
	return again
}

// failed takes in an error of the connection. It reports whether the request is
// to be sent again, and waits until then. Otherwise the error is the caller's.
func (x *exchange) failed(c *call, err error) (again bool, _ error) {
	c.lost()
	unsent := neverSent(err) && (x.body == nil || !x.body.read.Load())
	if unsent {
		c.unsent()
	} else {
		c.end(nil)
	}
	pause := backoff(100*time.Millisecond, 10*time.Second, x.attempt)
	if c.ctx.Err() != nil || !x.mayRepeat(unsent) || !x.inTime(time.Now().Add(pause)) {
		return false, err
	}
	x.waited += pause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, err
	case <-c.ctx.Done():
		return false, c.ctx.Err()
	}
}

// mayRepeat reports whether the request may be sent again. If it may have been
// executed, executing it twice must do no harm, as net/http has it too.
func (x *exchange) mayRepeat(notExecuted bool) bool {
	r := x.first
	if x.attempt >= x.t.attempts || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return notExecuted || r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// inTime reports whether the request may wait until an instant.
func (x *exchange) inTime(until time.Time) bool {
	deadline, ok := x.first.Context().Deadline()
	return time.Until(until) <= x.t.maxWait-x.waited && (!ok || until.Before(deadline))
}

// neverSent reports whether err says that there was no connection to send a
// request on.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// returned is what a refused request really took of units: none.
func returned(units core.Units) core.Units {
	if units == nil {
		return nil
	}
	none := make(core.Units, len(units))
	for unit := range units {
		if unit != core.Requests {
			none[unit] = 0
		}
	}
	return none
}
