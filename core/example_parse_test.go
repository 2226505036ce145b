package core_test

import (
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
)

func ExampleParseLimit() {
	limit, err := core.ParseLimit(`1_000 / 2 weeks aligned name "per fortnight"`)
	fmt.Println(limit.Capacity, limit.RefillInterval, err)
	fmt.Println(limit)

	_, err = core.ParseLimit("ten/moon")
	fmt.Println(err)
	// Output:
	// 1000 336h0m0s <nil>
	// 1000/2weeks aligned name "per fortnight"
	// ratelimit: Limit: "ten/moon" is not a limit: "ten" is not a number, such as 100, 0.5 or 1_000; write it as 60/min burst 20 (RL110)
}
