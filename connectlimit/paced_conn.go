package connectlimit

import (
	"errors"
	"io"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// pacedConn is a stream of a client that a [Pacer] let open.
type pacedConn struct {
	connect.StreamingClientConn
	paced *outgoing.Stream
}

// Receive receives a message. The first one says that the server has let the
// stream open.
func (c *pacedConn) Receive(m any) error {
	err := c.StreamingClientConn.Receive(m)
	switch {
	case err == nil:
		c.paced.Received(outcome(nil, c.ResponseHeader(), nil), false)
	case errors.Is(err, io.EOF):
		c.paced.Received(outcome(nil, c.ResponseHeader(), c.ResponseTrailer()), true)
	default:
		c.paced.Received(outcome(err, nil, nil), true)
	}
	return err
}

// CloseResponse ends the stream.
func (c *pacedConn) CloseResponse() error {
	err := c.StreamingClientConn.CloseResponse()
	c.paced.Close()
	return err
}

// closedConn is a stream that may not open. Nothing was sent for it.
type closedConn struct {
	connect.StreamingClientConn
	err error
}

func (c *closedConn) Send(any) error       { return c.err }
func (c *closedConn) CloseRequest() error  { return nil }
func (c *closedConn) Receive(any) error    { return c.err }
func (c *closedConn) CloseResponse() error { return nil }
