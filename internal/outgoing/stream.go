package outgoing

import (
	"context"
	"sync"
)

// Stream is a stream that a [Pacer] let open. It holds slots until it is over.
type Stream struct {
	pacer  *Pacer
	turn   *Turn
	method string

	heard, ended sync.Once
	stop         func() bool
}

// Follow ends s also when ctx ends. It is called once, when the stream is open.
func (s *Stream) Follow(ctx context.Context) {
	s.stop = context.AfterFunc(ctx, func() {
		s.heard.Do(s.turn.Lost)
		s.end()
	})
}

// Received notes that a message came, or that there will be none: then over is
// true. The first one says that the server let the stream open, or did not.
func (s *Stream) Received(o Outcome, over bool) {
	s.heard.Do(func() { s.pacer.heard(s.turn, s.method, o) })
	if over {
		s.Close()
		return
	}
	s.turn.HoldOn()
}

// Close ends s. It can be called several times.
func (s *Stream) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.heard.Do(s.turn.Lost)
	s.end()
}

func (s *Stream) end() { s.ended.Do(func() { s.turn.End(nil) }) }
