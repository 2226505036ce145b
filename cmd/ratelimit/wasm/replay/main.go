//go:build js

// Command replay reads an access log and replays it, in a worker of the site's
// page of replays.
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/inpage"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/report"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/samplelog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/session"
)

func main() {
	var p program
	inpage.Serve(inpage.Answers{
		"style": func(context.Context, inpage.Question) (any, error) { return report.Style, nil },
		"read":  p.read, "play": p.play, "save": p.save,
	})
}

// program has the log that was read last, and what was last replayed.
type program struct {
	log    *session.Session
	replay *session.Replay
}

var errNoLog = errors.New("no log was read")

// progress is how far the program is.
type progress struct {
	Lines int64   `json:"lines"`
	Part  float64 `json:"part"` // of all, from 0 to 1
}

// pause is how often progress is told, at most.
const pause = 60 * time.Millisecond

// read reads the file of a question, or the sample.
func (p *program) read(ctx context.Context, q inpage.Question) (any, error) {
	var asked struct {
		session.Options

		Sample bool `json:"sample"`
	}
	if err := q.Read(&asked); err != nil {
		return nil, err
	}
	name, part := "access.log", func() float64 { return 1 }
	var log io.Reader
	if asked.Sample {
		var text bytes.Buffer
		if err := samplelog.Write(&text); err != nil {
			return nil, err
		}
		log = &text
	} else {
		file := q.File()
		name, log = file.Name, file
		part = func() float64 { return float64(file.Done()) / float64(file.Size) }
	}
	last := time.Now()
	read, err := session.Read(name, log, asked.Options, func(lines int64) error {
		if time.Since(last) > pause {
			last = time.Now()
			q.Tell(progress{lines, part()})
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	p.log, p.replay = read, nil
	return struct {
		Requests int64 `json:"requests"`
		Clients  int   `json:"clients"`
	}{read.Requests(), read.Clients()}, nil
}

// play replays the log: it tells what is denied, and answers with the smallest
// changes.
func (p *program) play(ctx context.Context, q inpage.Question) (any, error) {
	var try session.Try
	log := p.log
	if err := q.Read(&try); err != nil || log == nil {
		return nil, errors.Join(err, errNoLog)
	}
	decided, last := 0, time.Now()
	r, err := log.Decide(ctx, try, func(n int) {
		if decided += n; time.Since(last) > pause {
			last = time.Now()
			q.Tell(progress{Part: float64(decided) / float64(log.Requests())})
		}
	})
	if err != nil {
		return nil, err
	}
	shown, err := r.Shown()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	q.Tell(shown)
	p.replay = r
	if err := r.Search(ctx); err != nil {
		return nil, err
	}
	return r.Shown()
}

// save returns what the command writes: the page of -html, and the object of
// -json.
func (p *program) save(context.Context, inpage.Question) (any, error) {
	if p.replay == nil {
		return nil, errNoLog
	}
	var page, object bytes.Buffer
	err := errors.Join(p.replay.HTML(&page), p.replay.JSON(&object))
	return struct {
		HTML string `json:"html"`
		JSON string `json:"json"`
	}{page.String(), object.String()}, err
}
