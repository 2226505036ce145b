package clientlimit

import (
	"io"
	"net/http"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// follow ends c when the body of its answer is over.
func (t *Transport) follow(c *call, res *http.Response) {
	if c.hold == 0 && t.settle == nil {
		c.end(nil)
		return
	}
	b := &body{ReadCloser: res.Body, call: c, res: res}
	if res.Body == http.NoBody {
		b.over()
		return
	}
	res.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok { // the connection of a 101
		res.Body = struct {
			*body
			io.Writer
		}{b, w}
	}
}

// body is the body of an answer. Its call ends when it has been read or closed.
type body struct {
	io.ReadCloser
	call *call
	res  *http.Response
	once sync.Once

	mu  sync.Mutex
	end []byte // that was read last, if there is something to settle; guarded by mu
}

// endBytes is how much of a body is kept to settle by.
const endBytes = 64 << 10

// Read reads from the answer. The slots of a long one are held for as long as
// it is read.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.keep(p[:n])
	if err != nil {
		b.over()
	} else {
		b.call.holdOn()
	}
	return n, err
}

// Close ends the answer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.over()
	return err
}

// over ends the call, once.
func (b *body) over() {
	b.once.Do(func() {
		var used core.Units
		defer func() { b.call.end(used) }() // also if settle panics
		if settle := b.call.t.settle; settle != nil {
			used = settle(b.res, b.last())
		}
	})
}

// keep keeps the last bytes that were read.
func (b *body) keep(p []byte) {
	if b.call.t.settle == nil || len(p) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = append(b.end, p...)
	if len(b.end) > 2*endBytes {
		b.end = append(b.end[:0], b.end[len(b.end)-endBytes:]...)
	}
}

// last returns the bytes that were read last.
func (b *body) last() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end[max(0, len(b.end)-endBytes):]
}
