package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// settings are what the page can change of a chapter.
type settings struct {
	rate

	Cost    int64  `json:"cost"`
	Second  second `json:"second"`
	Headers string `json:"headers"`
	Key     string `json:"key"`      // whose bucket it is: client (everybody's), user or ip
	Plan    int64  `json:"plan"`     // Bob's limits are so many times as large; 1: as everybody's
	Slots   int    `json:"slots"`    // requests that may be in flight; 0: any number
	Takes   int64  `json:"takes_ms"` // how long a request is in flight
}

type rate struct {
	Capacity int64   `json:"capacity"`
	Rate     float64 `json:"rate"`
	Interval float64 `json:"interval_ms"`
	Mode     string  `json:"mode"`
}

type second struct {
	On bool `json:"on"`
	rate

	Unit string `json:"unit"` // what it counts; "" is requests
	Cost int64  `json:"cost"` // how many of these a request is charged; of requests it is settings.Cost
	Used int64  `json:"used"` // and how many it turns out to use
}

var defaults = settings{
	rate:    rate{Capacity: 10, Rate: 1, Interval: 1000, Mode: "continuous"},
	Cost:    1,
	Second:  second{rate: rate{Capacity: 100, Rate: 100, Interval: 60_000, Mode: "continuous"}, Cost: 1200, Used: 1200},
	Headers: "default",
	Key:     "ip",
	Plan:    1,
}

// refilling are the default settings with another bucket.
func refilling(capacity int64, per, intervalMS float64, key string) settings {
	s := defaults
	s.Capacity, s.Rate, s.Interval, s.Key = capacity, per, intervalMS, key
	return s
}

var (
	modes  = map[string]core.Mode{"continuous": core.Continuous, "stepped": core.Stepped, "aligned": core.Aligned}
	styles = map[string]core.HeaderStyle{
		"default": core.HeadersDefault, "legacy": core.HeadersLegacy, "draft8": core.HeadersDraft8,
		"draft6": core.HeadersDraft6, "none": core.HeadersNone,
	}
)

// fieldErrors are messages by field, for the page to show beside it.
type fieldErrors map[string]string

func (e fieldErrors) Error() string { return fmt.Sprint(map[string]string(e)) }

// with returns s with the fields that body changes. Its error is fieldErrors.
func (s settings) with(body []byte) (settings, error) {
	fields := json.NewDecoder(bytes.NewReader(body))
	fields.DisallowUnknownFields()
	var wrong *json.UnmarshalTypeError
	switch err := fields.Decode(&s); {
	case errors.As(err, &wrong):
		message := "must be " + typeInWords(wrong.Type.String())
		if number, ok := strings.CutPrefix(wrong.Value, "number "); ok {
			message += ": got " + clip(number)
		}
		return s, fieldErrors{strings.Replace(wrong.Field, "rate.", "", 1): message}
	case err != nil:
		return s, fieldErrors{"": "the settings must be a JSON object: " + clip(err.Error())}
	}
	if _, err := fields.Token(); err != io.EOF {
		return s, fieldErrors{"": "the settings must be one JSON object"}
	}
	if s.Second.Unit == string(core.Requests) {
		s.Second.Unit = ""
	}
	if bad := s.mistakes(); len(bad) > 0 {
		return s, bad
	}
	return s, nil
}

// typeInWords is a Go type as the page says it.
func typeInWords(t string) string {
	switch t {
	case "int", "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "string":
		return "a word"
	}
	return "a JSON object"
}

// mistakes are what is wrong with values that could be read.
func (s *settings) mistakes() fieldErrors {
	bad := fieldErrors{}
	say := func(field, format string, args ...any) {
		if _, said := bad[field]; !said {
			bad[field] = fmt.Sprintf(format, args...)
		}
	}
	among := func(field, value string, known ...string) {
		if !slices.Contains(known, value) {
			say(field, "must be %s: got %q", strings.Join(known, ", "), clip(value))
		}
	}
	within := func(field string, value, least, most int64) {
		if value < least || value > most {
			say(field, "must be %d to %d: got %d", least, most, value)
		}
	}
	for prefix, r := range map[string]rate{"": s.rate, "second.": s.Second.rate} {
		if prefix != "" && !s.Second.On {
			continue
		}
		among(prefix+"mode", r.Mode, "continuous", "stepped", "aligned")
		if !(r.Interval >= 1 && r.Interval <= year) {
			say(prefix+"interval_ms", "must be 1 ms to 365 days: got %s ms", inFull(r.Interval))
		}
		if r.Rate > maxRate {
			say(prefix+"rate", "must be at most 1,000,000,000,000 tokens: got %s", inFull(r.Rate))
		}
	}
	among("headers", s.Headers, "default", "legacy", "draft8", "draft6", "none")
	among("key", s.Key, "client", "user", "ip")
	within("cost", s.Cost, 0, 1_000_000)
	within("second.cost", s.Second.Cost, 0, 1_000_000)
	within("second.used", s.Second.Used, 0, 1_000_000)
	within("plan", s.Plan, 1, 100)
	within("slots", int64(s.Slots), 0, 100)
	within("takes_ms", s.Takes, 0, 10_000)
	if len(bad) > 0 {
		return bad
	}
	// The rest is the library's to say.
	_, err := core.NewLimiter(core.NewMemoryStore(), s.policy("demo"))
	for _, e := range configErrors(err) {
		prefix := ""
		if strings.Contains(e.Field, "Limits[1]") {
			prefix = "second."
		}
		field := fieldNames[e.Field[strings.LastIndex(e.Field, ".")+1:]]
		say(prefix+field, "%s: got %v", inWords.Replace(e.Reason), e.Value)
	}
	return bad
}

// inFull writes a number without an exponent.
func inFull(n float64) string { return clip(strconv.FormatFloat(n, 'f', -1, 64)) }

// fieldNames are the fields of a limit, as the page names them, and inWords as
// it writes them in sentences.
var (
	fieldNames = map[string]string{
		"Capacity": "capacity", "RefillRate": "rate", "RefillInterval": "interval_ms", "Unit": "unit",
	}
	inWords = strings.NewReplacer(
		"tokens every RefillInterval", "tokens that come back every so many ms", "this Capacity", "this capacity")
)

const (
	year    = 365 * 24 * 3600 * 1000.0 // in ms
	maxRate = 1e12                     // more tokens than a machine can take, and few enough to be drawn
)

// configErrors are the mistakes that err joins.
func configErrors(err error) (list []*core.ConfigError) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			list = append(list, configErrors(e)...)
		}
	} else if one, ok := errors.AsType[*core.ConfigError](err); ok {
		list = append(list, one)
	}
	return list
}

// policy is what a limiter gets. Buckets keep their tokens while its name stays.
func (s *settings) policy(name string) core.Policy {
	p := core.Policy{Name: name, Limits: []core.Limit{s.limit()}, Headers: styles[s.Headers]}
	if s.Second.On {
		p.Limits = append(p.Limits, s.Second.limit().WithName("second").WithUnit(s.Second.Unit))
	}
	if s.Slots > 0 {
		p.Limits = append(p.Limits, core.InFlight(s.Slots).WithName("at-once"))
	}
	if len(p.Limits) > 1 {
		p.Limits[0].Name = name // as that of a sole limit is: its bucket stays
	}
	if s.Plan > 1 && s.Key == "user" {
		larger := slices.Clone(p.Limits)
		for i := range larger {
			larger[i].Capacity *= s.Plan
			larger[i].RefillRate *= float64(s.Plan)
		}
		p.Overrides = map[string][]core.Limit{keyOf("user", newRequest(users[1])): larger}
	}
	return p
}

func (r rate) limit() core.Limit {
	return core.Limit{
		Capacity: r.Capacity, RefillRate: r.Rate, Mode: modes[r.Mode],
		RefillInterval: time.Duration(math.Round(r.Interval * float64(time.Millisecond))),
	}
}

// units are n of what the second limit counts, if that is not requests.
func (s *settings) units(n int64) core.Units {
	if !s.Second.On || s.Second.Unit == "" {
		return nil
	}
	return core.Units{s.Second.Unit: n}
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
