package adaptertest

import (
	"bytes"
	"log/slog"
	"sync"
)

// logged returns what the default logger writes while f runs.
func (c *trial[K, O]) logged(f func()) string {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log lockedBuffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	f()
	return log.String()
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
