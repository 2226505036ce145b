package grpclimit

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// Pacing is what a [Pacer] goes by. The zero Pacing learns from the answers.
type Pacing = outgoing.Pacing

// Pacer keeps the calls of a client to the limits of their server. It waits as
// the Transport of package clientlimit does, and is safe for concurrent use.
// Its interceptors share what it knows:
//
//	pacer, err := grpclimit.NewPacer(grpclimit.Pacing{Limiter: limiter})
//	...
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(pacer.UnaryClient), grpc.WithChainStreamInterceptor(pacer.StreamClient))
//
// A call is refused if it fails with ResourceExhausted and says when to come
// back: by RetryInfo, the trailer grpc-retry-pushback-ms, or the fields of
// limits. Then all calls of its key pause. ResourceExhausted without that is no
// limit of a rate, such as a message that is too large, and is the caller's.
//
// A call that would wait for too long fails with ResourceExhausted and is not
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

// UnaryClient is a [grpc.UnaryClientInterceptor]. It sends a refused call
// again, and one that failed with Unavailable and RetryInfo if Repeats says so.
func (p *Pacer) UnaryClient(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	return notSent(p.pacer.Unary(ctx, method, conn.Target(), func() (outgoing.Outcome, error) {
		var header, trailer metadata.MD
		err := invoke(ctx, method, in, out, conn, append(options[:len(options):len(options)], grpc.Header(&header), grpc.Trailer(&trailer))...)
		return outcome(err, header, trailer), err
	}))
}

// StreamClient is a [grpc.StreamClientInterceptor]. A stream waits until it may
// open, and holds slots until it is over. It is not opened again.
func (p *Pacer) StreamClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	paced, err := p.pacer.Open(ctx, method, conn.Target())
	if err != nil {
		return nil, notSent(err)
	}
	// The context of a stream also ends with it, but asking for it would keep
	// gRPC from sending again what no server has seen.
	var header, trailer metadata.MD
	over := grpc.OnFinish(func(err error) { paced.Received(outcome(err, header, trailer), true) })
	stream, err := open(ctx, desc, conn, method, append(options[:len(options):len(options)], grpc.Header(&header), grpc.Trailer(&trailer), over)...)
	if err != nil {
		paced.Received(outcome(err, nil, nil), true)
		return nil, err
	}
	return &pacedStream{ClientStream: stream, paced: paced}, nil
}

// outcome returns how a call ended.
func outcome(err error, header, trailer metadata.MD) outgoing.Outcome {
	s, _ := status.FromError(err)
	o := outgoing.Outcome{Code: outgoing.Code(s.Code()), Fields: func(name string) []string {
		name = strings.ToLower(name)
		return append(header.Get(name), trailer.Get(name)...)
	}}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			o.Delay = max(o.Delay, info.GetRetryDelay().AsDuration())
		}
	}
	return o
}

// notSent gives the error of a call that was not sent a status.
func notSent(err error) error {
	var late *outgoing.Error
	if errors.As(err, &late) {
		return &pacedError{late}
	}
	if _, ok := status.FromError(err); !ok && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return status.FromContextError(err).Err()
	}
	return err
}

// pacedError is an outgoing.Error with a status.
type pacedError struct{ late *outgoing.Error }

func (e *pacedError) Error() string { return e.late.Error() }
func (e *pacedError) Unwrap() error { return e.late }

// GRPCStatus is for [status.FromError].
func (e *pacedError) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, e.late.Error())
}
