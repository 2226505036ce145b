package grpclimit

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// messages is a stream each of whose received messages is decided. A message is over when the handler asks for the next one, or
// returns.
type messages struct {
	grpc.ServerStream
	*interceptor
	call   Call // of the stream
	cancel context.CancelFunc

	received bool                 // the handler has asked for a message
	opening  *middleware.Decision // of limiters that decided the opening

	mu      sync.Mutex // a goroutine of the handler may receive when the handler returns
	over    bool
	refused error
	end     func(codes.Code) // ends the last message; nil: there is nothing to end
}

// messages returns the stream for the handler of c. stop ends it with the code of its answer.
func (i *interceptor) messages(c *Call, ss grpc.ServerStream) (m *messages, stop func(codes.Code)) {
	ctx, cancel := context.WithCancel(c.ctx)
	call := Call{FullMethod: c.FullMethod, Stream: true, ctx: ctx, state: c.state}
	m = &messages{ServerStream: ss, interceptor: i, call: call, cancel: cancel}
	return m, m.stop
}

func (m *messages) Context() context.Context { return m.call.ctx }

// RecvMsg receives a message that has paid. If one is denied, the stream is over: its context ends, and all further calls return the
// same error.
func (m *messages) RecvMsg(into any) error {
	m.finish(codes.OK)
	if err := m.refusal(); err != nil {
		return err
	}
	if !m.received {
		m.received, m.opening = true, m.call.state.decision.Load() // also of limiters behind this one
	}
	m.call.state.decision.Store(m.opening) // without those about the last message
	if err := m.ServerStream.RecvMsg(into); err != nil {
		return err
	}
	c := m.call
	c.Message = into
	a := m.decide(&c)
	if a.Outcome != middleware.Allowed {
		return m.refuseAll(m.refuse(&c, &a))
	}
	if !m.engine.WantsEnd(&a) {
		return nil
	}
	end := func(code codes.Code) { m.engine.End(&c, &a, int(code)) }
	m.mu.Lock()
	late := m.over
	if !late {
		m.end = end
	}
	m.mu.Unlock()
	if late {
		end(codes.Canceled)
	}
	return nil
}

// decide decides a message. With PerMessageWait it waits until the message is not denied, or waiting can't help.
func (m *messages) decide(c *Call) middleware.Admission {
	before := c.state.decision.Load()
	for {
		a := m.engine.Begin(c, asRequest(c))
		if a.Outcome != middleware.Denied || !m.wait || a.Result.RetryAfter == core.Never {
			return a
		}
		if deadline, ok := c.ctx.Deadline(); ok && time.Until(deadline) < a.Result.RetryAfter {
			return a
		}
		c.state.decision.Store(before) // the engine decides a request with a decision of its own only once
		wait := time.NewTimer(a.Result.RetryAfter)
		select {
		case <-wait.C:
		case <-c.ctx.Done():
			wait.Stop()
		}
	}
}

// refusal returns why the stream is over, or nil.
func (m *messages) refusal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

func (m *messages) refuseAll(err error) error {
	m.mu.Lock()
	m.refused = err
	m.mu.Unlock()
	m.cancel()
	return err
}

// finish ends the last message.
func (m *messages) finish(code codes.Code) {
	m.mu.Lock()
	end := m.end
	m.end = nil
	m.mu.Unlock()
	if end != nil {
		end(code)
	}
}

func (m *messages) stop(code codes.Code) {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	m.finish(code)
	m.cancel()
}
