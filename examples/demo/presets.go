package main

import "github.com/tokenbucket-go/ratelimit/core"

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
