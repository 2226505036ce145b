package outgoing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
)

// Pacing is what a [Pacer] goes by. The zero Pacing learns from the answers.
type Pacing struct {
	// Limiter has the tokens that calls take. nil: there is none.
	Limiter *core.Limiter

	// Key returns what calls have in common that wait together, by their
	// method, such as /files.v1.Files/Read, and the target of their connection.
	// nil: the target, as target:api.example.com%3A443.
	Key func(ctx context.Context, method, target string) (string, error)

	SharedPauses core.Store                   // processes that share it pause together; nil: each pauses alone
	Queue        int                          // how many calls can wait for a key; 0: 1,000
	Attempts     int                          // how often a unary call is sent at most; 0: 5 times
	MaxWait      time.Duration                // for how long a call can wait in all; 0: a minute
	Repeats      func(method string) bool     // reports whether a method may be executed twice, for unavailable; nil: none may
	Name         string                       // of the client, for the observer
	Observer     func(context.Context, Event) // called with what happens to calls; nil: nobody is
}

// mistakes returns those in a Pacing.
func (p *Pacing) mistakes() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{{"Queue", int64(p.Queue)}, {"Attempts", int64(p.Attempts)}, {"MaxWait", int64(p.MaxWait)}} {
		if f.value < 0 {
			errs = append(errs, &core.ConfigError{Field: "NewPacer " + f.name, Value: f.value, Reason: "must be at least 0, which stands for the default"})
		}
	}
	return errors.Join(errs...)
}

// Pacer keeps the calls of RPC clients to the limits of their servers. It is
// safe for concurrent use.
type Pacer struct {
	pacing Pacing
	gate   *Gate
}

// NewPacer returns a Pacer. Its error reports all mistakes.
func NewPacer(p Pacing) (*Pacer, error) {
	c := Config{Name: p.Name, Limiter: p.Limiter, Queue: cmp.Or(p.Queue, 1000)}
	err := p.mistakes()
	if p.SharedPauses != nil {
		var failed error
		c.Shared, failed = NewShared(p.SharedPauses)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	if p.Observer != nil {
		c.Observers = append(c.Observers, p.Observer)
	}
	p.Attempts, p.MaxWait = cmp.Or(p.Attempts, 5), cmp.Or(p.MaxWait, time.Minute)
	return &Pacer{p, New(c)}, nil
}

// State returns how a key is doing now.
func (p *Pacer) State(key string) State { return p.gate.State(key) }

// Outcome is how a call ended, or of a stream how it began.
type Outcome struct {
	Code   Code
	Fields advice.Fields // of its header and trailer
	Delay  time.Duration // of RetryInfo; 0: there is none
}

// Code is a code of gRPC, and of Connect. 0 is success.
type Code uint32

// The codes that say something of limits.
const (
	canceled          Code = 1
	deadlineExceeded  Code = 4
	resourceExhausted Code = 8
	unavailable       Code = 14
)

// Unary has send send a call when it is its turn, and again after a refusal.
// Its error is that of send, or of [Gate.Enter] if the call was not sent.
func (p *Pacer) Unary(ctx context.Context, method, target string, send func() (Outcome, error)) error {
	var waited time.Duration
	for attempt := 1; ; attempt++ {
		turn, err := p.enter(ctx, method, target, p.pacing.MaxWait-waited)
		if err != nil {
			return err
		}
		waited += turn.Waited
		var outcome Outcome
		turn.Send(func() { outcome, err = send() })
		again := p.heard(turn, method, outcome)
		turn.End(nil)
		if !again || attempt == p.pacing.Attempts || !InTime(ctx, p.pacing.MaxWait-waited, turn.Paused()) {
			return err
		}
		p.gate.SentAgain(ctx, turn.lane.key)
	}
}

// Open waits until a stream may open. Streams are not opened again.
func (p *Pacer) Open(ctx context.Context, method, target string) (*Stream, error) {
	turn, err := p.enter(ctx, method, target, p.pacing.MaxWait)
	if err != nil {
		return nil, err
	}
	return &Stream{pacer: p, turn: turn, method: method}, nil
}

// enter waits for the turn of a call, at most for so long.
func (p *Pacer) enter(ctx context.Context, method, target string, most time.Duration) (*Turn, error) {
	key := core.JoinKey("target", target)
	if p.pacing.Key != nil {
		var err error
		if key, err = p.pacing.Key(ctx, method, target); err != nil {
			return nil, err
		}
	}
	if key == "" {
		return nil, fmt.Errorf("%w: it is empty", core.ErrNoKey)
	}
	return p.gate.Enter(ctx, Call{Key: key, Until: time.Now().Add(most)})
}

// heard takes in how a call ended. It reports whether it may be sent again.
func (p *Pacer) heard(turn *Turn, method string, o Outcome) (again bool) {
	a := advice.Read(o.Fields, time.Now())
	delay, again := o.delay()
	if delay > 0 {
		a.RetryAfter = delay
	}
	switch {
	case o.Code == resourceExhausted && (a.RetryAfter > 0 || len(a.Quotas) > 0):
		turn.Refused(a)
		return again
	case o.Code == unavailable && a.RetryAfter > 0:
		turn.Busy(a)
		return again && p.pacing.Repeats != nil && p.pacing.Repeats(method)
	case o.Code == unavailable || o.Code == canceled || o.Code == deadlineExceeded:
		turn.Lost()
	default:
		turn.Served(a)
	}
	return false
}

// delay returns how long an outcome asks to wait, or 0. again is false if it
// says not to retry: a pushback that is negative or no number (gRFC A6).
func (o Outcome) delay() (d time.Duration, again bool) {
	pushback := o.Fields("Grpc-Retry-Pushback-Ms")
	if len(pushback) == 0 {
		return o.Delay, true
	}
	ms, err := strconv.ParseInt(pushback[0], 10, 32)
	if err != nil || ms < 0 {
		return o.Delay, false
	}
	return max(o.Delay, time.Duration(ms)*time.Millisecond), true
}
