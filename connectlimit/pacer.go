package connectlimit

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// Pacing is what a [Pacer] goes by. The zero Pacing learns from the answers.
type Pacing = outgoing.Pacing

// Pacer is a [connect.Interceptor] of clients, whichever protocol they speak.
// It keeps their calls to the limits of the server. It waits as the Transport
// of package clientlimit does, and is safe for concurrent use:
//
//	pacer, err := connectlimit.NewPacer(connectlimit.Pacing{Limiter: limiter})
//	...
//	files := filesv1connect.NewFilesClient(http.DefaultClient, url, connect.WithInterceptors(pacer))
//
// A call is refused if it fails with resource_exhausted and says when to come
// back: by RetryInfo, Retry-After, or the fields of limits. Then all calls of
// its key pause, and a unary call is sent again. resource_exhausted without
// that is no limit of a rate, such as a message that is too large, and is the
// caller's. So is unavailable, unless it has RetryInfo and Repeats says so.
//
// Streams wait until they may open, hold slots until they are over, and are not
// opened again.
//
// A call that would wait for too long fails with resource_exhausted and is not
// sent. [errors.As] finds a *clientlimit.Error in it.
type Pacer struct{ pacer *outgoing.Pacer }

// NewPacer returns a Pacer. Its error reports all mistakes in p.
func NewPacer(p Pacing) (*Pacer, error) {
	pacer, err := outgoing.NewPacer(p)
	if err != nil {
		return nil, err
	}
	return &Pacer{pacer}, nil
}

// State returns how a key is doing now, such as "target:api.example.com". It is
// for pages and logs, and is the zero State for a key that was not used lately.
func (p *Pacer) State(key string) outgoing.State { return p.pacer.State(key) }

// WrapUnary paces unary calls of clients.
func (p *Pacer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		err = p.pacer.Unary(ctx, req.Spec().Procedure, req.Peer().Addr, func() (outgoing.Outcome, error) {
			res, err = next(ctx, req)
			if err != nil {
				return outcome(err, nil, nil), err
			}
			return outcome(nil, res.Header(), res.Trailer()), nil
		})
		return res, notSent(err)
	}
}

// WrapStreamingClient paces streams of clients.
func (p *Pacer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec) // which sends nothing yet
		paced, err := p.pacer.Open(ctx, spec.Procedure, conn.Peer().Addr)
		if err != nil {
			return &closedConn{conn, notSent(err)}
		}
		paced.Follow(ctx)
		return &pacedConn{conn, paced}
	}
}

// WrapStreamingHandler leaves handlers alone.
func (*Pacer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// outcome returns how a call ended.
func outcome(err error, header, trailer http.Header) outgoing.Outcome {
	o := outgoing.Outcome{Code: outgoing.Code(codeOf(err)), Fields: func(name string) []string {
		return append(header.Values(name), trailer.Values(name)...)
	}}
	var failed *connect.Error
	if !errors.As(err, &failed) || failed == nil {
		return o
	}
	o.Fields = failed.Meta().Values // header and trailer
	for _, detail := range failed.Details() {
		if v, err := detail.Value(); err == nil {
			if info, ok := v.(*errdetails.RetryInfo); ok {
				o.Delay = max(o.Delay, info.GetRetryDelay().AsDuration())
			}
		}
	}
	return o
}

// notSent gives the error of a call that was not sent a code.
func notSent(err error) error {
	var late *outgoing.Error
	if errors.As(err, &late) {
		return connect.NewError(connect.CodeResourceExhausted, err)
	}
	if code := codeOf(err); code == connect.CodeCanceled || code == connect.CodeDeadlineExceeded {
		var own *connect.Error
		if !errors.As(err, &own) {
			return connect.NewError(code, err)
		}
	}
	return err
}
