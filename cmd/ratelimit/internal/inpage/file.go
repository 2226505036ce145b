//go:build js

package inpage

import (
	"errors"
	"io"
	"syscall/js"
)

// File is a file of the page, which is read in parts.
type File struct {
	Name string
	Size int64

	blob js.Value
	at   int64
	part []byte // what was read ahead
	room []byte
}

// partSize is how much of a file is in memory.
const partSize = 1 << 20

// File returns the file that came with a question.
func (q Question) File() *File {
	blob := q.data.Get("file")
	return &File{Name: q.data.Get("name").String(), Size: int64(blob.Get("size").Float()), blob: blob}
}

// Done is how many bytes were read.
func (f *File) Done() int64 { return f.at - int64(len(f.part)) }

func (f *File) Read(p []byte) (int, error) {
	if len(f.part) == 0 {
		if f.at >= f.Size {
			return 0, io.EOF
		}
		end := min(f.Size, f.at+partSize)
		buffer, err := await(f.blob.Call("slice", f.at, end).Call("arrayBuffer"))
		if err != nil {
			return 0, err
		}
		bytes := js.Global().Get("Uint8Array").New(buffer)
		if f.room == nil {
			f.room = make([]byte, partSize)
		}
		n := js.CopyBytesToGo(f.room, bytes)
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		f.part, f.at = f.room[:n], f.at+int64(n)
	}
	n := copy(p, f.part)
	f.part = f.part[n:]
	return n, nil
}

// await waits for a promise.
func await(promise js.Value) (result js.Value, err error) {
	done := make(chan struct{})
	kept := js.FuncOf(func(_ js.Value, args []js.Value) any {
		result = args[0]
		close(done)
		return nil
	})
	broken := js.FuncOf(func(_ js.Value, args []js.Value) any {
		err = errors.New("the browser can't read the file: " + args[0].Get("message").String())
		close(done)
		return nil
	})
	defer kept.Release()
	defer broken.Release()
	promise.Call("then", kept, broken)
	<-done
	return result, err
}
