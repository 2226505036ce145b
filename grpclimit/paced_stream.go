package grpclimit

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// pacedStream is a stream of a client that a [Pacer] let open.
type pacedStream struct {
	grpc.ClientStream
	paced    *outgoing.Stream
	received bool // a message
}

// RecvMsg receives a message. The first one says that the server has let the
// stream open.
func (s *pacedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		var header metadata.MD
		if !s.received {
			s.received = true
			header, _ = s.Header() // is there by now
		}
		s.paced.Received(outcome(nil, header, nil), false)
		return nil
	}
	failed := err
	if errors.Is(err, io.EOF) {
		failed = nil
	}
	s.paced.Received(outcome(failed, nil, s.Trailer()), true)
	return err
}
