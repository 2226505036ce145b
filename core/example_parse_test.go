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
	// ratelimit: limit "ten/moon": Limit.RefillRate: "ten" must be a number such as 100, 0.5 or 1_000 (RL103)
	// Limit.RefillInterval: "moon" must be a time such as s, min, h, day, week, month, 30s, 5 min or 1h30m (RL104); want RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [name NAME], such as "100/min burst 20", or N at once [hold INTERVAL] [name NAME]
}
