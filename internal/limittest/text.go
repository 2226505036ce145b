package limittest

import (
	"bytes"
	"sync"
)

// HeaderList is a core.HeaderWriter that joins added values.
type HeaderList map[string]string

func (h HeaderList) Get(name string) string { return h[name] }
func (h HeaderList) Set(name, value string) { h[name] = value }
func (h HeaderList) Add(name, value string) { h[name] += value }

// LockedBuffer is a buffer that is safe for concurrent use.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
