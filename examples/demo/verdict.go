package main

import "fmt"

// verdict is what a scenario came to.
type verdict struct {
	Outcome outcome `json:"outcome"`
	Text    string  `json:"text"`
	again   bool    // another run may tell
}

type outcome string

const (
	expected   outcome = "expected"
	unexpected outcome = "unexpected"
	none       outcome = "none" // it could not be told, which is nobody's fault
)

// slow is the verdict where the machine, or Redis, left nothing to judge.
func slow(format string, args ...any) verdict {
	return verdict{Outcome: none, Text: fmt.Sprintf(format, args...) + " Run it again when less is going on.", again: true}
}

// judge is the verdict on a run whose requests were all decided in the scenario's store: ok is whether what it admitted
// is right then. Where this process decided some alone, or some were not answered, there is none.
func (r *rehearsal) judge(ok bool, text string) verdict {
	alone := int64(0)
	for _, s := range r.scenes {
		alone += s.alone.Load()
	}
	switch {
	case r.odd.Load() > 0:
		return verdict{Outcome: unexpected, Text: fmt.Sprintf("A request was answered with status %d.", r.odd.Load())}
	case r.lost.Load() > 0:
		return slow("Of its requests %d were not answered in time.", r.lost.Load())
	case alone > 0:
		return slow("Redis was too slow for %d of the decisions: this process made them alone, from a bucket of its own.", alone)
	case ok:
		return verdict{Outcome: expected, Text: text}
	}
	return verdict{Outcome: unexpected, Text: text}
}
