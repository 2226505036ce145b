package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress is a bar on a terminal.
type progress struct {
	w    io.Writer
	on   bool
	last time.Time
	seen bool
}

const barWidth = 30

// show draws the bar, at most ten times a second. Without a total it only says what is done.
func (p *progress) show(what string, done, total int64) {
	now := time.Now()
	if !p.on || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.seen = now, true
	bar := ""
	if total > 0 {
		done = min(done, total)
		full := int(done * barWidth / total)
		bar = fmt.Sprintf("[%s%s] %3d %% ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done*100/total)
	}
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s%s", bar, what)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.seen {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.seen = false
	}
}
