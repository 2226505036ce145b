// Package logtest captures what tests log.
package logtest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Capture returns what slog's default logger wrote while f ran. f may log from several goroutines. Tests that call it
// must not run in parallel, because it replaces the default logger.
func Capture(f func()) string {
	before := slog.Default()
	defer slog.SetDefault(before)
	var lines Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil)))
	f()
	return lines.String()
}

// Buffer is a bytes.Buffer for several goroutines.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
