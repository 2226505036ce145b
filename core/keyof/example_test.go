package keyof_test

import (
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
)

func Example() {
	key := core.Must(keyof.Header("X-Api-Key", "k-123"))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
		Overrides: map[string][]core.Limit{key: {core.PerMinute(600)}},
	}))
	fmt.Println(key, limiter.Capacity(key), limiter.Capacity("k-123")) // the key is not its value alone
	// Output: header:x-api-key:k-123 600 60
}

func ExampleIP() {
	fmt.Println(keyof.IP("192.0.2.1"))
	fmt.Println(keyof.IP("2001:db8::1"))
	// Output:
	// ip:192.0.2.1 <nil>
	// ip:2001:db8::/64 <nil>
}
