package policyfile_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// The error reports mistakes with their lines.
func ExampleLoad_mistakes() {
	_, err := policyfile.Load(strings.NewReader(`
policies:
  - name: search
    limits:
      - 10/s brust 30
      - ten/min
`))
	fmt.Println(err)
	// Output:
	// line 5:9: policies[0].limits[0]: "10/s brust 30" is not a limit: "brust" is not understood; write it as 60/min burst 20 (RL110)
	// >  5 |       - 10/s brust 30
	//                ^
	// line 6:9: policies[0].limits[1]: "ten/min" is not a limit: "ten" is not a number, such as 100, 0.5 or 1_000; write it as 60/min burst 20 (RL110)
	// >  6 |       - ten/min
	//                ^
}

func ExampleError() {
	_, err := policyfile.Load(strings.NewReader("- name: api\n  limits: [-5/s]\n"))
	if mistake, ok := errors.AsType[*policyfile.Error](err); ok {
		fmt.Println(mistake.Line, mistake.Column, mistake.Field)
	}
	// Output:
	// 2 12 [0].limits[0]
}

// A file of policies makes the limiters of a service by their names.
func Example() {
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
