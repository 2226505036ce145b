package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// progress is a bar on a terminal, with the time that is left.
type progress struct {
	w           io.Writer
	on          bool
	began, last time.Time // began: when what is shown began
	seen        bool
	keys        string // that were looked at
}

// newProgress returns a bar on the standard error, if that is a terminal.
func newProgress(s cli.Streams) *progress {
	return &progress{w: s.Err, on: s.Terminal, began: time.Now(), keys: "0 keys"}
}

const (
	barWidth = 20
	// mostShown is how many characters a terminal shows on one line: a bar of
	// more lines could not be removed.
	mostShown = 79
)

// show draws the bar, at most ten times a second. Without a total it only says
// what is done.
func (p *progress) show(what string, done, total int64) {
	now := time.Now()
	if !p.on || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.seen = now, true
	line := what
	if total > 0 {
		done = min(done, total)
		full := int(done * barWidth / total)
		line = fmt.Sprintf("[%s%s] %3d %%  %s%s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done*100/total, what, p.left(now, done, total))
	}
	if text := []rune(line); len(text) > mostShown {
		line = string(text[:mostShown-1]) + "…"
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

// left is the time that is left, once enough is done to know it.
func (p *progress) left(now time.Time, done, total int64) string {
	elapsed := now.Sub(p.began)
	if done == 0 || elapsed < 2*time.Second {
		return ""
	}
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done))
	return ", " + show.Duration(max(time.Second, left)) + " left"
}

// looked shows how many of a server's keys were looked at.
func (p *progress) looked(done, total int64) {
	p.keys = show.Some(done, "key")
	if total > 0 {
		p.keys = show.Count(min(done, total)) + " of " + show.Some(total, "key") // SCAN looks at more than there are
	}
	p.show(p.keys, done, total)
}

// clear removes the bar. What is shown next begins now.
func (p *progress) clear() {
	if p.seen {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
	p.seen, p.began = false, time.Now()
}
