package policyfile_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

func ExampleParse() {
	policy, err := policyfile.Parse([]byte(`
name: search
limits:
  - 10/s burst 30
  - {name: daily, refill_rate: 10_000, refill_interval: day, mode: aligned}
on_failure: open
`))
	fmt.Println(policy.Name, policy.OnFailure, err)
	for _, limit := range policy.Limits {
		fmt.Println(limit)
	}
	// Output:
	// search FailOpen <nil>
	// 10/s burst 30
	// 10000/day aligned name daily
}

// The error reports every mistake with its line and column.
func ExampleParse_mistakes() {
	_, err := policyfile.Parse([]byte(`
name: search
limits:
  - 10/s brust 30
  - {refill_rate: 10_000, refill_interval: 86400}
onFailure: open
`))
	fmt.Println(err)
	// Output:
	// line 4:5: limits[0]: "brust" is not understood (did you mean burst?): a limit is RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [name NAME], such as "100/min burst 20", or N at once [hold INTERVAL] [name NAME] (RL110)
	// line 4:5: limits[0]: "30" is not understood (RL110)
	// line 5:44: limits[1].refill_interval: 86400 needs a unit, such as 86400s (RL104)
	// line 6:1: "onFailure" is not a field of a policy: the fields are name, limits, on_failure, local_share, headers, shadow, plans, overrides, blocked (RL206)
}

func ExampleError() {
	_, err := policyfile.Parse([]byte("name: api\nlimits: [-5/s]\n"))
	if mistake, ok := errors.AsType[*policyfile.Error](err); ok {
		fmt.Println(mistake.Line, mistake.Column, mistake.Field)
	}
	// Output:
	// 2 10 limits[0].refill_rate
}

func ExampleLoad() {
	policies, err := policyfile.Load(strings.NewReader(`
policies:
  - name: search
    limits: [10/s burst 30]
  - name: login
    limits: [5/15min stepped]
    on_failure: closed
`))
	if err != nil {
		fmt.Println(err) // all mistakes, each with its line
		return
	}
	limiter, err := core.NewLimiter(core.NewMemoryStore(), policies["login"])
	fmt.Println(limiter.Policy().Limits, err)
	// Output:
	// [5/15min stepped] <nil>
}

// A file of policies makes the limiters of a service by their names.
func Example() {
	policies, err := policyfile.Load(strings.NewReader(`
- {name: search, limits: [10/s burst 30]}
- {name: login, limits: [5/15min stepped], on_failure: closed}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := core.NewLimiter(core.NewMemoryStore(), policies["login"])
	fmt.Println(limiter.Policy().Limits, err)
	// Output: [5/15min stepped] <nil>
}
