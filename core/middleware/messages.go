package middleware

import (
	"context"
	"sync"
	"sync/atomic"
)

// Decisions are those about one call, for its handler. The zero value has none.
type Decisions = atomic.Pointer[Decision]

// Messages decides the messages that a stream receives, one by one. A message
// is over when the handler asks for the next one, or returns. C is what the
// user's functions receive. Set the fields before the first Receive.
type Messages[C any] struct {
	Engine    *Engine[C]
	Wait      bool                           // a denied message waits until it has its tokens
	Refuse    func(C, *Admission) error      // makes the error of a message that does not pass
	Decisions *Decisions                     // of the stream
	Cancel    context.CancelFunc             // ends the handler's context
	Call      func(message any) (C, Request) // returns the call with a message

	received bool      // the handler has asked for a message
	opening  *Decision // of limiters that decided the opening

	mu      sync.Mutex // a goroutine of the handler may receive when the handler returns
	over    bool
	refused error
	end     func(Code) // ends the last message; nil: there is nothing to end
}

// Receive receives a message that has paid, by receive, into message. If it is
// denied, the stream is over: its context ends, and all further calls return
// the same error. Call it from one goroutine at a time.
func (m *Messages[C]) Receive(receive func() error, message any) error {
	m.finish(0)
	if err := m.Refusal(); err != nil {
		return err
	}
	if !m.received {
		m.received, m.opening = true, m.Decisions.Load() // also of limiters behind this one
	}
	m.Decisions.Store(m.opening) // without those about the last message
	if err := receive(); err != nil {
		return err
	}
	c, x := m.Call(message)
	a := m.decide(c, x)
	if a.Verdict != Allowed {
		return m.refuseAll(m.Refuse(c, &a))
	}
	if !m.Engine.WantsEnd(&a) {
		return nil
	}
	end := func(code Code) { m.Engine.End(c, &a, int(code)) }
	m.mu.Lock()
	late := m.over
	if !late {
		m.end = end
	}
	m.mu.Unlock()
	if late {
		end(CodeCanceled)
	}
	return nil
}

// decide decides a message.
func (m *Messages[C]) decide(c C, x Request) Admission {
	if m.Wait {
		return m.Engine.Await(c, x)
	}
	return m.Engine.Begin(c, x)
}

// Refusal returns why the stream is over, or nil. The stream is answered with
// it, whatever its handler makes of it.
func (m *Messages[C]) Refusal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused
}

// refuseAll ends the stream with err.
func (m *Messages[C]) refuseAll(err error) error {
	m.mu.Lock()
	m.refused = err
	m.mu.Unlock()
	m.Cancel()
	return err
}

// finish ends the last message.
func (m *Messages[C]) finish(code Code) {
	m.mu.Lock()
	end := m.end
	m.end = nil
	m.mu.Unlock()
	if end != nil {
		end(code)
	}
}

// Stop ends the last message, when the handler has returned. The stream was
// answered with code.
func (m *Messages[C]) Stop(code Code) {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	m.finish(code)
	m.Cancel()
}
