package replay

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Read adds the requests of a log. Tick is called now and then, and if it
// returns an error Read ends with that. Another error, such as of a file that
// is cut off, is noted in Traffic.Broken.
func (c *Collector) Read(name string, log io.Reader, tick func() error) error {
	lines, stopped := 0, error(nil)
	add := func(l *accesslog.Line) error {
		c.Add(name, l)
		if lines++; lines%5_000 == 0 {
			stopped = tick()
		}
		return stopped
	}
	err := accesslog.Read(log, c.o.Log, add, func(b accesslog.Bad) { c.Bad(name, b) })
	if err != nil && stopped == nil {
		c.Broken(fmt.Errorf("%s: %w", show.Visible(name), err))
	}
	return stopped
}

// Why says why there is nothing to replay, after Collector.Traffic returned
// err. Hidden leaves out what may name a client.
func (t *Traffic) Why(err error, hidden bool) error {
	why := t.Keyless.Why
	if hidden {
		why = core.ErrNoKey.Error()
	}
	first := func(p Problem, why string) {
		if p.Count > 0 {
			err = fmt.Errorf("%w; the first of %s that can't be used is %s:%d: %s", err, show.Some(p.Count, "line"), p.File, p.Line, why)
		}
	}
	first(t.Unread, t.Unread.Why)
	first(t.Keyless, why)
	if t.Left > 0 {
		err = fmt.Errorf("%w; -only and -skip left out %s", err, show.Some(t.Left, "line"))
	}
	return errors.Join(append([]error{err}, t.Broken...)...)
}

// Tried is the policy, and its label, of the limit that is tried as number n,
// from 1.
func Tried(n int, l core.Limit) (policy core.Policy, label string) {
	return core.Policy{Name: "limit-" + strconv.Itoa(n), Limits: []core.Limit{l}}, l.String()
}
