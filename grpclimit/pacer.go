package grpclimit

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// Pacing is what a [Pacer] goes by. The zero Pacing learns from the answers.
type Pacing struct {
	// Limiter has the tokens that calls take. nil: there is none.
	Limiter *core.Limiter

	// Key returns what calls have in common that wait together. nil: the target of their connection.
	Key func(ctx context.Context, fullMethod string, conn *grpc.ClientConn) (string, error)

	SharedPauses core.Store                   // processes that share it pause together; nil: each pauses alone
	Queue        int                          // how many calls can wait for a key; 0: 1,000
	Attempts     int                          // how often a unary call is sent at most; 0: 5 times
	MaxWait      time.Duration                // for how long a call can wait in all; 0: a minute
	Repeats      func(fullMethod string) bool // reports whether a method may be executed twice, for Unavailable; nil: none may
}

// Pacer keeps the calls of a client to the limits of their server. It waits as the Transport of package clientlimit does, and is safe for
// concurrent use. Its interceptors share what it knows:
//
//	pacer, err := grpclimit.NewPacer(grpclimit.Pacing{Limiter: limiter})
//	...
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(pacer.UnaryClient), grpc.WithChainStreamInterceptor(pacer.StreamClient))
//
// A call is refused if it fails with ResourceExhausted and says when to come back: by RetryInfo, the trailer grpc-retry-pushback-ms, or
// the fields of limits. Then all calls of its key pause. ResourceExhausted without that is no limit of a rate, such as a message that is
// too large, and is the caller's. A call that would wait for too long fails with an error that [errors.As] finds as a *clientlimit.Error.
type Pacer struct {
	Pacing

	gate *outgoing.Gate
}

// NewPacer returns a Pacer. Its error reports a store that can't be used.
func NewPacer(p Pacing) (*Pacer, error) {
	p.Queue, p.Attempts, p.MaxWait = cmp.Or(p.Queue, 1000), cmp.Or(p.Attempts, 5), cmp.Or(p.MaxWait, time.Minute)
	c := outgoing.Config{Limiter: p.Limiter, Queue: p.Queue}
	if p.SharedPauses != nil {
		var err error
		if c.Shared, err = outgoing.NewShared(p.SharedPauses); err != nil {
			return nil, err
		}
	}
	return &Pacer{p, outgoing.New(c)}, nil
}

// UnaryClient is a [grpc.UnaryClientInterceptor]. It sends a refused call again, and one that failed with Unavailable and RetryInfo if
// Repeats says so.
func (p *Pacer) UnaryClient(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	var waited time.Duration
	for attempt := 1; ; attempt++ {
		turn, err := p.enter(ctx, method, conn, p.MaxWait-waited)
		if err != nil {
			return err
		}
		waited += turn.Waited
		var header, trailer metadata.MD
		err = invoke(ctx, method, in, out, conn, append(options[:len(options):len(options)], grpc.Header(&header), grpc.Trailer(&trailer))...)
		may := p.heard(turn, method, err, header, trailer) && attempt < p.Attempts
		turn.End(nil)
		deadline, ok := ctx.Deadline()
		if until := turn.Paused(); !may || time.Until(until) > p.MaxWait-waited || ok && until.After(deadline) {
			return err
		}
	}
}

// StreamClient is a [grpc.StreamClientInterceptor]. A stream waits until it may open, and holds slots until it is over. It is not opened again.
func (p *Pacer) StreamClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	turn, err := p.enter(ctx, method, conn, p.MaxWait)
	if err != nil {
		return nil, err
	}
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		p.heard(turn, method, err, nil, nil)
		turn.End(nil)
		return nil, err
	}
	return p.follow(turn, method, stream), nil
}

// enter waits for the turn of a call, at most for so long.
func (p *Pacer) enter(ctx context.Context, method string, conn *grpc.ClientConn, most time.Duration) (*outgoing.Turn, error) {
	key := ""
	if p.Key == nil {
		key = core.JoinKey("target", conn.Target())
	} else {
		var err error
		if key, err = p.Key(ctx, method, conn); err != nil {
			return nil, err
		}
	}
	if key == "" {
		return nil, fmt.Errorf("%w: it is empty", core.ErrNoKey)
	}
	return p.gate.Enter(ctx, outgoing.Call{Key: key, Until: time.Now().Add(most)})
}

// heard takes in how a call ended. It reports whether it may be sent again.
func (p *Pacer) heard(turn *outgoing.Turn, method string, err error, header, trailer metadata.MD) (may bool) {
	a := advice.Read(func(name string) []string {
		name = strings.ToLower(name)
		return append(header.Get(name), trailer.Get(name)...)
	}, time.Now())
	s, _ := status.FromError(err)
	said, may := retryAfter(s, trailer)
	if said > 0 {
		a.RetryAfter = said
	}
	switch {
	case s.Code() == codes.ResourceExhausted && (a.RetryAfter > 0 || len(a.Quotas) > 0):
		turn.Refused(a)
		return may
	case s.Code() == codes.Unavailable && a.RetryAfter > 0:
		turn.Busy(a)
		return may && p.Repeats != nil && p.Repeats(method)
	case err == nil || s.Code() != codes.Unavailable && s.Code() != codes.Canceled && s.Code() != codes.DeadlineExceeded:
		turn.Served(a)
	default:
		turn.Lost()
	}
	return false
}

// retryAfter returns how long a status asks to wait, or 0. may is false if the trailer says not to retry.
func retryAfter(s *status.Status, trailer metadata.MD) (d time.Duration, may bool) {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			d = max(d, info.GetRetryDelay().AsDuration())
		}
	}
	if pushback := trailer.Get("grpc-retry-pushback-ms"); len(pushback) > 0 {
		ms, err := strconv.ParseInt(pushback[0], 10, 32)
		if err != nil || ms < 0 { // as gRFC A6 has it
			return d, false
		}
		d = max(d, time.Duration(ms)*time.Millisecond)
	}
	return d, true
}
