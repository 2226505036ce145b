package main

import "github.com/tokenbucket-go/ratelimit/core"

// preset is limits as they are used in the field, to try out.
type preset struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Text     string   `json:"text"`
	Asks     string   `json:"asks"` // what its script answers
	Does     string   `json:"does"` // the script, as the button says it
	Script   string   `json:"script"`
	N        int      `json:"n"` // of the script's order
	Settings settings `json:"settings"`
}

var presets = []preset{
	{
		ID: "users", Title: "A bucket each",
		Text:   "Ann and Bob each have 10 tokens, and one comes back each second.",
		Asks:   "For five seconds Ann sends ten a second, Bob one. Who is denied?",
		Does:   "Send as Ann and Bob",
		Script: "users", N: 1,
		Settings: refilling(10, 1, 1000, "user"),
	},
	{
		ID: "plans", Title: "Plans",
		Text:   "Bob pays for twice as much as Ann: his bucket is twice as large, and is refilled twice as fast.",
		Asks:   "Both send ten a second for five seconds. How many of each are allowed?",
		Does:   "Send as Ann and Bob",
		Script: "users", N: 10,
		Settings: plans(),
	},
	{
		ID: "login", Title: "Login",
		Text:   "Five attempts, then one more every 3 minutes. Each IP address has a bucket.",
		Asks:   "One address tries eight passwords at once. How many are looked at?",
		Does:   "Send 8 at once",
		Script: "burst", N: 8,
		Settings: refilling(5, 5, 900_000, "ip"),
	},
	{
		ID: "quota", Title: "Monthly quota",
		Text:   "1,000 requests a month, all back on the first at 00:00 UTC, and 10 at once, 2 a second.",
		Asks:   "Ann sends 15 at once. Which of her two limits denies some?",
		Does:   "Send 15 at once",
		Script: "burst", N: 15,
		Settings: monthlyQuota(),
	},
	{
		ID: "model", Title: "Model tokens",
		Text: "20 requests a minute, and 20,000 tokens of a language model. " +
			"A request is charged 1,200, uses 800, and gets the rest back.",
		Asks:   "Ann sends 20 at once. Which bucket is empty first?",
		Does:   "Send 20 at once",
		Script: "burst", N: 20,
		Settings: modelTokens(),
	},
	{
		ID: "slots", Title: "Three at once",
		Text:   "Three requests may be at work at once, for two seconds each.",
		Asks:   "Ten come at once. How many get to work?",
		Does:   "Send 10 at once",
		Script: "burst", N: 10,
		Settings: threeAtOnce(),
	},
}

func plans() settings {
	s := refilling(10, 1, 1000, "user")
	s.Plan = 2
	return s
}

func monthlyQuota() settings {
	s := refilling(10, 2, 1000, "user")
	s.Second = second{On: true, rate: rate{1000, 1000, float64(core.Month) / 1e6, "aligned"}}
	return s
}

func modelTokens() settings {
	s := refilling(20, 20, 60_000, "user")
	s.Second = second{On: true, rate: rate{20_000, 20_000, 60_000, "continuous"}, Unit: "tokens", Cost: 1200, Used: 800}
	return s
}

func threeAtOnce() settings {
	s := refilling(100, 100, 1000, "client")
	s.Slots, s.Takes = 3, 2000
	return s
}
