package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// settings are what the page can change, as it sends them.
type settings struct {
	bucket

	Cost    int64  `json:"cost"`
	Second  second `json:"second"`
	Headers string `json:"headers"`
	Key     string `json:"key"` // client, user or ip

	slots int           // how many requests may be at work at once; 0: any number
	takes time.Duration // how long a request is at work
}

type bucket struct {
	Capacity int64   `json:"capacity"`
	Rate     float64 `json:"rate"`
	Interval float64 `json:"interval_ms"`
	Mode     string  `json:"mode"`
}

type second struct {
	On bool `json:"on"`
	bucket

	Unit string `json:"unit"` // what it counts; "" is requests
	Cost int64  `json:"cost"` // how many of these a request takes; of requests it is settings.Cost
}

var defaults = settings{
	bucket:  bucket{Capacity: 10, Rate: 1, Interval: 1000, Mode: "continuous"},
	Cost:    1,
	Second:  second{bucket: bucket{Capacity: 100, Rate: 100, Interval: 60_000, Mode: "aligned"}, Cost: 1200},
	Headers: "default",
	Key:     "client",
}

var (
	modes  = map[string]core.Mode{"continuous": core.Continuous, "stepped": core.Stepped, "aligned": core.Aligned}
	styles = map[string]core.HeaderStyle{
		"default": core.HeadersDefault, "legacy": core.HeadersLegacy, "ietf": core.HeadersIETF,
		"draft6": core.HeadersDraft6, "none": core.HeadersNone,
	}
)

// fieldErrors are messages by field, for the page to show beside it.
type fieldErrors map[string]string

func (e fieldErrors) Error() string { return fmt.Sprint(map[string]string(e)) }

// parseSettings reads what a page sent. Its error is fieldErrors.
func parseSettings(body []byte) (s settings, err error) {
	var raw, second map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return s, fieldErrors{"": "the settings must be a JSON object"}
	}
	bad := fieldErrors{}
	if text, ok := raw["second"]; ok && json.Unmarshal(text, &second) != nil {
		bad["second"] = "must be an object"
	}
	read := func(from map[string]json.RawMessage, prefix, name string, into any, must string) {
		text, given := from[name]
		switch {
		case !given:
			bad[prefix+name] = "is missing"
		case string(text) == `""`:
			bad[prefix+name] = must + ", and is empty"
		case string(text) == "null", json.Unmarshal(text, into) != nil:
			bad[prefix+name] = must + ": got " + clip(string(text))
		}
	}
	readBucket := func(from map[string]json.RawMessage, prefix string, b *bucket) {
		read(from, prefix, "capacity", &b.Capacity, "must be a whole number of tokens")
		read(from, prefix, "rate", &b.Rate, "must be a number of tokens")
		read(from, prefix, "interval_ms", &b.Interval, "must be a number of milliseconds")
		read(from, prefix, "mode", &b.Mode, "must be a word")
	}
	readBucket(raw, "", &s.bucket)
	read(raw, "", "cost", &s.Cost, "must be a whole number of tokens")
	read(raw, "", "headers", &s.Headers, "must be a word")
	read(raw, "", "key", &s.Key, "must be a word")
	if second != nil {
		read(second, "second.", "on", &s.Second.On, "must be true or false")
		if s.Second.On {
			readBucket(second, "second.", &s.Second.bucket)
			s.Second.Cost = defaults.Second.Cost
			for name, into := range map[string]any{"unit": &s.Second.Unit, "cost": &s.Second.Cost} {
				if text, given := second[name]; given && string(text) != `""` {
					read(second, "second.", name, into, map[string]string{"unit": "must be a word", "cost": "must be a whole number"}[name])
				}
			}
			if s.Second.Unit == string(core.Requests) {
				s.Second.Unit = ""
			}
		}
	}
	if !s.Second.On {
		s.Second = defaults.Second
	}
	s.check(bad)
	if len(bad) > 0 {
		return s, bad
	}
	return s, nil
}

// check adds what is wrong with values that could be read.
func (s *settings) check(bad fieldErrors) {
	say := func(field, format string, args ...any) {
		if _, said := bad[field]; !said {
			bad[field] = fmt.Sprintf(format, args...)
		}
	}
	buckets := map[string]*bucket{"": &s.bucket}
	if s.Second.On {
		buckets["second."] = &s.Second.bucket
	}
	for prefix, b := range buckets {
		if _, ok := modes[b.Mode]; !ok {
			say(prefix+"mode", "must be continuous, stepped or aligned: got %q", clip(b.Mode))
		}
		if !(b.Interval >= 1 && b.Interval <= maxInterval) {
			say(prefix+"interval_ms", "must be from 1 ms to a year, which is %.4g ms: got %v", maxInterval, b.Interval)
		}
	}
	for prefix, b := range buckets {
		if b.Rate > maxRate {
			say(prefix+"rate", "must be at most 1,000,000,000,000 tokens: got %v", b.Rate)
		}
	}
	if s.Second.On && (s.Second.Cost < 0 || s.Second.Cost > 1_000_000) {
		say("second.cost", "must be 0 to 1,000,000: got %d", s.Second.Cost)
	}
	if s.Cost < 0 || s.Cost > 1_000_000 {
		say("cost", "must be 0 to 1,000,000 tokens: got %d", s.Cost)
	}
	if _, ok := styles[s.Headers]; !ok {
		say("headers", "must be default, legacy, ietf, draft6 or none: got %q", clip(s.Headers))
	}
	if s.Key != "client" && s.Key != "user" && s.Key != "ip" {
		say("key", "must be client, user or ip: got %q", clip(s.Key))
	}
	// The rest is the library's to say. It gets its defaults for words it does not know.
	_, err := core.NewLimiter(core.NewMemoryStore(), s.policy())
	for _, e := range configErrors(err) {
		prefix, name := "", e.Field[strings.LastIndex(e.Field, ".")+1:]
		if strings.HasPrefix(e.Field, "Policy.Limits[1]") {
			prefix = "second."
		}
		field := map[string]string{"Capacity": "capacity", "RefillRate": "rate", "RefillInterval": "interval_ms", "Unit": "unit"}[name]
		say(prefix+field, "%s: got %v", inWords.Replace(e.Reason), e.Value)
	}
}

// inWords puts the names of Go's fields as the page does.
var inWords = strings.NewReplacer("tokens every RefillInterval", "tokens that come back every so many ms", "this Capacity", "this capacity")

// maxRate is more tokens than a machine can take, and few enough to be drawn.
const maxRate = 1e12

// maxInterval is a year, in ms.
const maxInterval = 365 * 24 * 3600 * 1000.0

// configErrors are the mistakes that err joins.
func configErrors(err error) []*core.ConfigError {
	var one *core.ConfigError
	var many interface{ Unwrap() []error }
	switch {
	case errors.As(err, &many):
		var list []*core.ConfigError
		for _, e := range many.Unwrap() {
			list = append(list, configErrors(e)...)
		}
		return list
	case errors.As(err, &one):
		return []*core.ConfigError{one}
	}
	return nil
}

// policy is what the limiter gets. Its name stays, so that buckets keep their tokens when limits change.
func (s *settings) policy() core.Policy {
	p := core.Policy{Name: policyName, Limits: []core.Limit{s.limit()}, Headers: styles[s.Headers]}
	if s.Second.On {
		p.Limits = append(p.Limits, s.Second.limit().WithName("second").WithUnit(s.Second.Unit))
	}
	p.Limits[0].Name = "demo"
	if s.slots > 0 {
		p.Limits = append(p.Limits, core.InFlight(s.slots).WithName("at-once"))
	}
	return p
}

// work is what handlers do.
func (s *settings) work() { time.Sleep(s.takes) }

func (b bucket) limit() core.Limit {
	return core.Limit{
		Capacity: b.Capacity, RefillRate: b.Rate, Mode: modes[b.Mode],
		RefillInterval: time.Duration(math.Round(b.Interval * float64(time.Millisecond))),
	}
}

// units are what a request takes besides requests.
func (s *settings) units() core.Units {
	if !s.Second.On || s.Second.Unit == "" {
		return nil
	}
	return core.Units{s.Second.Unit: s.Second.Cost}
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// preset is limits as they are used in the field, to try out.
type preset struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Text     string   `json:"text"`
	Settings settings `json:"settings"`
}

const (
	second1 = 1000.0
	minute  = 60 * second1
	month   = float64(core.Month) / 1e6
)

var presets = []preset{
	{"start", "10, +1 a second", "The start: bursts of 10, and 1 token every second.", defaults},
	{"api", "API, 60 a minute", "Each user may send 60 requests a minute: a token every second, bursts of 60.",
		with(bucket{Capacity: 60, Rate: 60, Interval: minute, Mode: "continuous"}, "user")},
	{"login", "Login, 5 per 15 min", "Five attempts, then one more every 3 minutes. Each IP address has a bucket.",
		with(bucket{Capacity: 5, Rate: 5, Interval: 15 * minute, Mode: "continuous"}, "ip")},
	{"quota", "Monthly quota", "1,000 requests a month, all back on the first at 00:00 UTC, and at most 10 at once, 2 a second.",
		withSecond(with(bucket{Capacity: 10, Rate: 2, Interval: second1, Mode: "continuous"}, "user"),
			second{On: true, bucket: bucket{Capacity: 1000, Rate: 1000, Interval: month, Mode: "aligned"}, Cost: 1200})},
	{"model", "A model’s tokens", "20 requests a minute and 20,000 tokens of a language model. A request takes 1,200 of these.",
		withSecond(with(bucket{Capacity: 20, Rate: 20, Interval: minute, Mode: "continuous"}, "user"),
			second{On: true, bucket: bucket{Capacity: 20_000, Rate: 20_000, Interval: minute, Mode: "continuous"}, Unit: "tokens", Cost: 1200})},
	{"steps", "10 every 10 s", "The three modes differ most here: look at them side by side.",
		with(bucket{Capacity: 10, Rate: 10, Interval: 10 * second1, Mode: "continuous"}, "client")},
}

func with(b bucket, key string) settings {
	s := defaults
	s.bucket, s.Key = b, key
	return s
}

func withSecond(s settings, l second) settings {
	s.Second = l
	return s
}
