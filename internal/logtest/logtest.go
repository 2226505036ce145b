// Package logtest captures what tests log. It is a package because tests without
// limiters need it too.
package logtest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Capture returns what slog's default logger wrote while f ran. f may log from
// several goroutines. Tests that call it must not run in parallel, because it
// replaces the default logger.
func Capture(f func()) string {
	lines, end := capture()
	defer end()
	f()
	return lines.String()
}

// Default returns what slog's default logger writes until the test ends. Such
// tests must not run in parallel either.
func Default(t testing.TB) *Buffer {
	t.Helper()
	lines, end := capture()
	t.Cleanup(end)
	return lines
}

// capture replaces the default logger until end is called.
func capture() (lines *Buffer, end func()) {
	before := slog.Default()
	lines = new(Buffer)
	slog.SetDefault(slog.New(slog.NewTextHandler(lines, nil)))
	return lines, func() { slog.SetDefault(before) }
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

// Count returns how often part was written.
func (b *Buffer) Count(part string) int { return strings.Count(b.String(), part) }
