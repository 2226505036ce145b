package clientlimit

import (
	"io"
	"net/http"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// Answer is an answer that is over, for [WithSettle].
type Answer struct {
	*http.Response // its Body must not be read

	// Read is the end of the body: up to 64 KiB of what the caller has read of
	// it last. The usage that a language model reports stands there.
	Read []byte
}

// tailBytes is the length of Answer.Read.
const tailBytes = 64 << 10

// follow ends turn when the body of its answer is over.
func (t *Transport) follow(turn *outgoing.Turn, res *http.Response) {
	if turn.Hold() == 0 && t.settle == nil {
		turn.End(nil)
		return
	}
	b := &body{ReadCloser: res.Body, turn: turn, keeps: t.settle != nil}
	b.end = func() {
		var used core.Units
		defer func() { turn.End(used) }() // also if settle panics
		if t.settle != nil {
			used = t.settle(&Answer{res, b.last()})
		}
	}
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

// body is the body of an answer. Its turn ends when it has been read or closed.
type body struct {
	io.ReadCloser
	turn *outgoing.Turn
	once sync.Once
	end  func()

	keeps bool // the tail
	mu    sync.Mutex
	tail  []byte // guarded by mu
}

// Read reads from the answer. The slots of a long one are held for as long as
// it is read.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.keep(p[:n])
	if err != nil {
		b.over()
	} else {
		b.turn.HoldOn()
	}
	return n, err
}

// Close ends the answer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.over()
	return err
}

// over ends the turn, once.
func (b *body) over() { b.once.Do(b.end) }

// keep keeps the last bytes that were read.
func (b *body) keep(p []byte) {
	if !b.keeps || len(p) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tail = append(b.tail, p...)
	if len(b.tail) > 2*tailBytes {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-tailBytes:]...)
	}
}

// last returns the bytes that were read last.
func (b *body) last() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tail[max(0, len(b.tail)-tailBytes):]
}
