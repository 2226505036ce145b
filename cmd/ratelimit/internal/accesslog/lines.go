package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxLine is the length of the longest line that is read, in bytes.
const maxLine = 1 << 20

// errLong means that a line is longer than maxLine.
var errLong = fmt.Errorf("the line is longer than %d bytes", maxLine)

// lines splits a log into lines. It holds at most one in memory.
type lines struct {
	r      *bufio.Reader
	buffer []byte // a line that is longer than the reader's buffer
	number int    // of the line that next returned, from 1
}

// newLines reads r, also if it is compressed with gzip, whatever its name is. A
// byte order mark is left out.
func newLines(r io.Reader) (*lines, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		b = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3)
	}
	return &lines{r: b}, nil
}

// next returns the next line without its end, \n or \r\n. It is valid until the
// next call. The error is errLong for a line that was skipped, io.EOF at the
// end, or that of the reader.
func (l *lines) next() ([]byte, error) {
	l.number++
	l.buffer = l.buffer[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case err == nil && long:
			return nil, errLong
		case err == nil && len(l.buffer) == 0:
			return trimEnd(part), nil
		case err == nil:
			return trimEnd(append(l.buffer, part...)), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if long = long || len(l.buffer)+len(part) > maxLine; !long {
				l.buffer = append(l.buffer, part...)
			}
		case errors.Is(err, io.EOF) && long:
			return nil, errLong
		case errors.Is(err, io.EOF) && len(l.buffer)+len(part) > 0: // a last line without an end
			return trimEnd(append(l.buffer, part...)), nil
		default: // the part of a line before a failure is not a line
			return nil, err
		}
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
