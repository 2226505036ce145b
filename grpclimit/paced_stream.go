package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// pacedStream is a stream of a client that a [Pacer] has opened.
type pacedStream struct {
	grpc.ClientStream
	heard func(err error) // that the server has answered: by a message, or with the stream's end
	end   func()
}

// follow ends a turn when its stream is over: its last message was received, it failed, or its context has ended.
func (p *Pacer) follow(turn *outgoing.Turn, method string, stream grpc.ClientStream) *pacedStream {
	var once sync.Once
	s := &pacedStream{ClientStream: stream}
	s.heard = func(err error) {
		once.Do(func() {
			var trailer metadata.MD
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if err != nil {
				trailer = stream.Trailer()
			}
			p.heard(turn, method, err, nil, trailer)
		})
	}
	s.end = sync.OnceFunc(func() { turn.End(nil) })
	context.AfterFunc(stream.Context(), func() {
		once.Do(turn.Lost)
		s.end()
	})
	return s
}

// RecvMsg receives a message. The first one says that the server has let the stream open.
func (s *pacedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.heard(err)
	if err != nil {
		s.end()
	}
	return err
}
