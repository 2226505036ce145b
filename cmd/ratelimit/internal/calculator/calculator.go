// Package calculator draws what limits do with a traffic: which requests the
// library allows and denies, and what is left in the buckets.
package calculator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/snippet"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Question is what a reader has typed and drawn.
type Question struct {
	Limits  string `json:"limits"`  // as core.ParseLimit reads them, one a line
	Traffic string `json:"traffic"` // counts of requests, one for each step, or times, one a line
	Step    string `json:"step"`    // how long a step of counts is, as the interval of a limit
	Cost    string `json:"cost"`    // how many tokens a request takes of each limit
	Window  string `json:"window"`  // the length of a window, as the interval of a limit
}

// Answer is what the library does then. What mistakes don't concern is there.
type Answer struct {
	Mistakes []Mistake `json:"mistakes"`
	Limits   []Limit   `json:"limits"`
	Go       string    `json:"go"`
	YAML     string    `json:"yaml"`
	Picture  *Picture  `json:"picture"`
	Window   *Window   `json:"window"`
}

// Mistake is what is wrong with one field of a question.
type Mistake struct {
	Field string `json:"field"` // limits, traffic, step, cost or window
	Line  int    `json:"line"`  // of the field, from 1; 0: all of it
	Text  string `json:"text"`
	Code  string `json:"code"` // of the section in docs/errors.md, or ""
}

// Limit is a limit as the library reads it.
type Limit struct {
	Text     string `json:"text"`
	Capacity int64  `json:"capacity"`
	Slots    bool   `json:"slots"` // it counts requests at work, not tokens
	Unit     string `json:"unit"`  // what it counts; "": requests
}

// asked is a question that was read.
type asked struct {
	limits  []core.Limit
	lines   []int // of limits
	cost    int64
	traffic traffic
	window  time.Duration

	mistakes []Mistake
}

// Compute answers a question.
func Compute(q Question) Answer {
	a := read(q)
	answer := Answer{Limits: []Limit{}}
	valid := len(a.mistakes) == 0
	if !a.wrong("limits") {
		for _, l := range a.limits {
			answer.Limits = append(answer.Limits, Limit{l.String(), l.Capacity, l.Mode == core.Concurrent, l.Unit})
		}
		answer.Go, answer.YAML = snippet.Lines(a.limits), snippet.File(a.limits)
	}
	if valid {
		run, err := a.run()
		if err == nil {
			answer.Picture = run.picture()
			answer.Window = a.worst(run)
		} else {
			a.report("traffic", 0, err)
		}
	}
	answer.Mistakes = append([]Mistake{}, a.mistakes...)
	return answer
}

func read(q Question) *asked {
	a := &asked{}
	for i, line := range strings.Split(q.Limits, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		l, err := core.ParseLimit(line)
		if err != nil {
			a.report("limits", i+1, err)
			continue
		}
		a.limits, a.lines = append(a.limits, l), append(a.lines, i+1)
	}
	switch {
	case a.wrong("limits"):
	case len(a.limits) == 0:
		a.report("limits", 0, errors.New("write a limit, such as 60/min burst 20"))
	default:
		if _, err := a.limiter(time.Now); err != nil {
			a.report("limits", 0, err)
		}
	}
	a.cost = a.number(q.Cost)
	step := a.interval("step", q.Step)
	a.window = a.interval("window", q.Window)
	if step > 0 {
		a.readTraffic(q.Traffic, step)
	}
	return a
}

// limiter is the library's, of all limits, in this process.
func (a *asked) limiter(now func() time.Time) (*core.Limiter, error) {
	return core.NewLimiter(core.NewMemoryStore(core.WithClock(now)), core.Policy{Name: snippet.Policy, Limits: a.limits})
}

// take takes what one request costs, of each unit that limits count.
func (a *asked) take(l *core.Limiter) (core.Result, error) {
	units := core.Units{}
	for _, limit := range a.limits {
		unit := limit.Unit
		if unit == "" {
			unit = core.Requests
		}
		units[unit] = a.cost
	}
	return l.AllowUnits(context.Background(), client, units)
}

// client is whose requests are drawn.
const client = "client"

// number reads the cost as the library reads the burst of a limit.
func (a *asked) number(text string) int64 {
	if strings.TrimSpace(text) == "" {
		return 1
	}
	return a.part("cost", text, "1/s burst ", "a whole number alone, such as 1 or 1_000", func(l core.Limit) core.Limit {
		return core.PerSecond(1).WithBurst(l.Capacity)
	}).Capacity
}

// interval reads a time as the library reads the interval of a limit.
func (a *asked) interval(field, text string) time.Duration {
	return a.part(field, text, "1/", "a time alone, such as 30s, 5 min or 1h30m", func(l core.Limit) core.Limit {
		return core.Per(1, l.RefillInterval)
	}).RefillInterval
}

// part reads one part of a limit: what follows before. Alone returns the limit
// that has no other part.
func (a *asked) part(field, text, before, must string, alone func(core.Limit) core.Limit) core.Limit {
	l, err := core.ParseLimit(before + text)
	if err == nil && l.String() != alone(l).String() {
		err = fmt.Errorf("%q must be %s", text, must)
	}
	if err != nil {
		a.report(field, 0, err)
		return core.Limit{}
	}
	return l
}

// report notes what an error says, without the name of the field in Go.
func (a *asked) report(field string, line int, err error) {
	for _, e := range each(err) {
		m := Mistake{Field: field, Line: line, Text: e.Error()}
		if config := (*core.ConfigError)(nil); errors.As(e, &config) {
			m.Code = config.Code()
			if i := 0; scan(config.Field, &i) && field == "limits" && i < len(a.lines) {
				m.Line = a.lines[i]
			}
			if _, text, found := strings.Cut(config.Error(), ": "); found {
				m.Text = text
			}
		}
		a.mistakes = append(a.mistakes, m)
	}
}

// scan reads which limit of the policy a field is of.
func scan(field string, i *int) bool {
	_, err := fmt.Sscanf(field, "Policy.Limits[%d]", i)
	return err == nil
}

// each returns the mistakes that an error joins, or the error.
func each(err error) (list []error) {
	switch e := err.(type) { //nolint:errorlint // it is what errors.As does
	case *core.ConfigError:
		return []error{e}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			if list = each(inner); len(list) > 0 && isConfig(list[0]) {
				return list
			}
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, each(one)...)
		}
		return list
	}
	return []error{err}
}

func isConfig(err error) bool {
	var config *core.ConfigError
	return errors.As(err, &config)
}

// wrong reports whether a field has a mistake.
func (a *asked) wrong(field string) bool {
	for _, m := range a.mistakes {
		if m.Field == field {
			return true
		}
	}
	return false
}
