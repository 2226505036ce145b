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
	switch mark, _ := b.Peek(3); {
	case bytes.Equal(mark, []byte("\xef\xbb\xbf")):
		_, _ = b.Discard(3)
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return nil, errors.New("the text is UTF-16: save it as UTF-8")
	}
	return &lines{r: b}, nil
}

// next returns the next line without its end, \n or \r\n. It is valid until the
// next call. The error is errLong for a line that was skipped, io.EOF at the
// end, or that of the reader.
func (l *lines) next() ([]byte, error) {
	l.number++
	l.buffer = l.buffer[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		whole := err == nil || errors.Is(err, io.EOF) && len(l.buffer)+len(part) > 0 // a last line may have no end
		switch {
		case !whole && !errors.Is(err, bufio.ErrBufferFull): // the part of a line before a failure is not a line
			return nil, err
		case whole && len(l.buffer) == 0:
			return trimEnd(part), nil
		case len(l.buffer) <= maxLine+len("\r\n"): // of a longer one the rest is not kept
			l.buffer = append(l.buffer, part...)
		}
		if line := trimEnd(l.buffer); whole && len(line) > maxLine {
			return nil, errLong
		} else if whole {
			return line, nil
		}
	}
}

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
