// Package delayproxy is a TCP proxy that makes round trips longer: what goes through it arrives later, each way by the
// same time. internal/faultproxy delays replies alone, and by time.Sleep, whose steps of a millisecond are too long for
// half of one.
package delayproxy

import (
	"net"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/pace"
)

// parcel is a part of a stream under way.
type parcel struct {
	due  time.Time
	to   net.Conn
	data []byte // nil: the stream has ended
}

// way is one direction of all connections. As all parcels take the same time, they are due in the order they come.
type way struct {
	delay   time.Duration
	parcels chan parcel
}

// Serve passes the connections that l accepts on to target and delays each direction by delay. It returns when l fails.
func Serve(l net.Listener, target string, delay time.Duration) error {
	there, err := newWay(delay)
	if err != nil {
		return err
	}
	back, err := newWay(delay)
	if err != nil {
		return err
	}
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		go there.read(client, server)
		go back.read(server, client)
	}
}

func newWay(delay time.Duration) (*way, error) {
	timer, err := pace.NewTimer()
	if err != nil {
		return nil, err
	}
	w := &way{delay, make(chan parcel, 1<<16)}
	go w.deliver(timer)
	return w, nil
}

// read sends what comes from a connection on its way.
func (w *way) read(from, to net.Conn) {
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		due := time.Now().Add(w.delay)
		if n > 0 {
			w.parcels <- parcel{due, to, buffer[:n]}
		}
		if err != nil {
			w.parcels <- parcel{due, to, nil}
			return
		}
	}
}

// deliver writes parcels when they are due. A failed write is seen by the reader of the same connection.
func (w *way) deliver(timer *pace.Timer) {
	for next := range w.parcels {
		_ = timer.Sleep(time.Until(next.due))
		if next.data == nil {
			_ = next.to.Close()
			continue
		}
		_, _ = next.to.Write(next.data)
	}
}
