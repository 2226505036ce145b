package clientlimit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// RoundTrip sends a request when it is its turn, and again if it may and the
// service asks for it. It implements [http.RoundTripper]: an error means that
// there is no answer, and the request's body is closed in any case.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchange{t: t, first: req, req: req}
	res, err := x.run(req.Context())
	if err != nil && !x.sent && req.Body != nil {
		req.Body.Close()
	}
	return res, err
}

// exchange is the attempts to have one request answered.
type exchange struct {
	t      *Transport
	first  *http.Request // the caller's
	req    *http.Request // that is sent next
	body   *readBody     // of req; nil: first has none that can be sent again
	sent   bool          // so the body of first is closed
	waited time.Duration // in all
}

// run makes attempts until the answer is the caller's.
func (x *exchange) run(ctx context.Context) (*http.Response, error) {
	call, err := x.call()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		began := time.Now()
		call.Until = began.Add(x.left())
		turn, err := x.t.gate.Enter(ctx, call)
		if err != nil {
			return nil, err
		}
		x.waited += turn.Waited
		if err = x.prepare(attempt); err != nil {
			turn.Lost()
			turn.NotSent()
			return nil, fmt.Errorf("clientlimit: GetBody: %w", err)
		}
		x.sent = true
		var res *http.Response
		turn.Send(func() { res, err = x.t.send(x.req) })
		var again bool
		if err != nil {
			again, err = x.failed(ctx, turn, attempt, err)
		} else {
			again = x.answered(turn, attempt, res)
		}
		if !again {
			return res, err
		}
		x.t.gate.SentAgain(ctx, call.Key)
	}
}

// send sends a request. Whatever next does, there is an error or an answer with
// a body.
func (t *Transport) send(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	switch {
	case err != nil:
	case res == nil:
		err = fmt.Errorf("clientlimit: %T returned neither an answer nor an error", t.next)
	case res.Body == nil: // of a fake
		res.Body = http.NoBody
	}
	return res, err
}

// call returns what the request asks of the gate.
func (x *exchange) call() (c outgoing.Call, err error) {
	if c.Key, err = x.t.keyOf(x.first); err != nil {
		return c, err
	}
	if x.t.units != nil {
		if c.Units, err = x.t.units(x.first); err != nil {
			return c, err
		}
	}
	return c, nil
}

// left is for how long the request may wait yet.
func (x *exchange) left() time.Duration { return max(0, x.t.longest-x.waited) }

// answered takes in an answer. It reports whether the request is to be sent
// again; otherwise the answer is the caller's.
func (x *exchange) answered(turn *outgoing.Turn, attempt int, res *http.Response) (again bool) {
	a := advice.Read(res.Header.Values, time.Now())
	may := attempt < x.t.attempts && canRewind(x.first)
	switch {
	case isRefusal(res.StatusCode, a):
		turn.Refused(a)
	case isBusy(res.StatusCode, a):
		turn.Busy(a)
		may = may && x.t.mayRepeat(x.first)
	default:
		turn.Served(a)
		x.t.follow(turn, res)
		return false
	}
	if may = may && outgoing.InTime(x.first.Context(), x.left(), turn.Paused()); may {
		discard(res.Body)
	}
	turn.End(returned(turn.Units()))
	return may
}

// failed takes in an error of the connection. It reports whether the request is
// to be sent again.
func (x *exchange) failed(ctx context.Context, turn *outgoing.Turn, attempt int, err error) (again bool, _ error) {
	turn.Lost()
	unsent := neverSent(err) && (x.body == nil || !x.body.read.Load())
	if unsent {
		turn.NotSent()
	} else {
		turn.End(nil)
	}
	if ctx.Err() != nil || attempt == x.t.attempts || !canRewind(x.first) || !unsent && !x.t.mayRepeat(x.first) {
		return false, err
	}
	pause := x.t.gate.Backoff(100*time.Millisecond, 10*time.Second, attempt)
	if !outgoing.InTime(ctx, x.left(), time.Now().Add(pause)) {
		return false, err
	}
	x.waited += pause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
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
