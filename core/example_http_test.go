package core_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func ExampleJoinKey() {
	fmt.Println(core.JoinKey("user", "acme", "ada"))
	fmt.Println(core.JoinKey("a:b", "c"), core.JoinKey("a", "b:c"))
	// Output:
	// user:acme:ada
	// a%3Ab:c a:b%3Ac
}

func ExampleIPOption() {
	key := httplimit.ByIP(
		core.TrustProxies("173.245.48.0/20"),
		core.TrustHeader("CF-Connecting-IP"),
		core.IPv6Prefix(56),
	)
	r := &http.Request{RemoteAddr: "173.245.48.9:443", Header: http.Header{"Cf-Connecting-Ip": {"2001:db8:1:2ff::7"}}}
	fmt.Println(key(r))
	// Output: ip:2001:db8:1:200::/56 <nil>
}

func ExampleHeaderStyle() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	for _, style := range []core.HeaderStyle{core.HeadersLegacy, core.HeadersDraft8, core.HeadersDraft6} {
		limiter := core.Must(core.NewLimiter(store, core.Policy{
			Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(20)}, Headers: style,
		}))
		res, _ := limiter.AllowN(context.Background(), fmt.Sprint(style), 13)
		h := http.Header{}
		res.WriteHeaders(h)
		for _, name := range slices.Sorted(maps.Keys(h)) {
			fmt.Printf("%s: %s\n", name, h.Get(name))
		}
	}
	// Output:
	// X-Ratelimit-Limit: 20
	// X-Ratelimit-Remaining: 7
	// X-Ratelimit-Reset: 1767225602
	// Ratelimit: "api";r=7;t=1
	// Ratelimit-Policy: "api";q=20;w=2
	// Ratelimit-Limit: 20
	// Ratelimit-Policy: 20;w=2
	// Ratelimit-Remaining: 7
	// Ratelimit-Reset: 2
}

func ExampleProblemDetails() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(5)},
	}))
	res, _ := limiter.AllowN(context.Background(), "ada", 6)
	var body strings.Builder
	e := json.NewEncoder(&body)
	e.SetIndent("", "  ")
	_ = e.Encode(core.Problem(res))
	fmt.Print(body.String())
	// Output:
	// {
	//   "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
	//   "title": "Request cannot be satisfied as assigned quota has been exceeded",
	//   "status": 429,
	//   "violated-policies": [
	//     "login"
	//   ]
	// }
}
