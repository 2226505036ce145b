package advice

// provider reads the fields of providers of language models, which count
// requests and tokens apart:
//
//	x-ratelimit-remaining-tokens: 149984         (OpenAI, and many with its interface; resets are durations: 6m0s, 20ms)
//	anthropic-ratelimit-tokens-remaining: 49500  (Anthropic; resets are dates of RFC 3339)
func provider(fields Fields, c clock) (quotas []Quota) {
	for _, names := range families {
		left, ok := count(first(fields(names.left)))
		if !ok {
			continue
		}
		q := Quota{Unit: names.unit, Left: left}
		q.Limit, _ = count(first(fields(names.limit)))
		reset, _ := c.until(first(fields(names.reset)))
		q.Reset, q.Whole = reset.left, reset.whole
		quotas = append(quotas, q)
	}
	return quotas
}

// family is the three fields of one limit.
type family struct{ unit, limit, left, reset string }

var families = []family{
	openAI("Requests", Requests),
	openAI("Tokens", "tokens"),
	anthropic("Requests", Requests),
	anthropic("Tokens", "tokens"),
	anthropic("Input-Tokens", "input-tokens"),
	anthropic("Output-Tokens", "output-tokens"),
}

func openAI(name, unit string) family {
	return family{unit, "X-Ratelimit-Limit-" + name, "X-Ratelimit-Remaining-" + name, "X-Ratelimit-Reset-" + name}
}

func anthropic(name, unit string) family {
	prefix := "Anthropic-Ratelimit-" + name
	return family{unit, prefix + "-Limit", prefix + "-Remaining", prefix + "-Reset"}
}
