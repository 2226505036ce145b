package denied_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
)

func Example() {
	top := core.Must(denied.New())
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(2)},
	}, core.WithObserver(top.Observe)))
	for _, user := range []string{"ann", "bob", "bob", "bob", "bob", "ann", "ann"} {
		_, _ = limiter.Allow(context.Background(), "user:"+user)
	}
	for _, policy := range top.Report().Policies {
		fmt.Println(policy.Policy, "denied", policy.Denied)
		for _, key := range policy.Keys {
			fmt.Println(key.Key, key.AtLeast)
		}
	}
	// Output:
	// login denied 3
	// user:bob 2
	// user:ann 1
}

// With a secret that all replicas share, reports have hashes, which Form finds.
func ExampleTop() {
	secret := []byte("of every replica: random bytes") // such as from an environment variable
	top := core.Must(denied.New(denied.WithMaxKeys(1000), denied.WithWindow(10*time.Minute), denied.WithKeySecret(secret)))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(10)},
	}, core.WithKeySecret(secret), core.WithObserver(top.Observe)))
	fmt.Println(top.Form("user:ann") == limiter.LogKey("user:ann"))
	// Output: true
}

func ExampleOption() {
	options := []denied.Option{denied.WithMaxKeys(20_000)}
	_, err := denied.New(options...)
	fmt.Println(err)
	// Output: denied.WithMaxKeys: 20000 must be from 1 to 10000 (RL304)
}

// Each replica reports what it denied, as JSON if it is another process. Merge
// adds it up.
func ExampleReport() {
	one := denied.Report{Policies: []denied.Policy{{Policy: "api", Denied: 10, Keys: []denied.Key{{Key: "user:ann", AtLeast: 10, AtMost: 10}}}}}
	two := denied.Report{Policies: []denied.Policy{{Policy: "api", Denied: 60, Unlisted: 4, Keys: []denied.Key{{Key: "user:bob", AtLeast: 50, AtMost: 52}}}}}
	for _, key := range denied.Merge(one, two).Policies[0].Keys {
		fmt.Println(key.Key, "from", key.AtLeast, "to", key.AtMost)
	}
	// Output:
	// user:bob from 50 to 52
	// user:ann from 10 to 14
}

func ExamplePolicy() {
	policy := denied.Policy{Policy: "api", Denied: 60, Keys: []denied.Key{{Key: "user:bob", AtLeast: 50, AtMost: 50}, {Key: "user:ann", AtLeast: 10, AtMost: 10}}}
	policy = policy.Top(1)
	fmt.Println(policy.Keys[0].Key, "and others with up to", policy.Unlisted)
	// Output: user:bob and others with up to 10
}

func ExampleKey() {
	key := denied.Key{Key: "user:ann", AtLeast: 10, AtMost: 14}
	fmt.Println(key.Key, "by at most", key.AtMost-key.AtLeast, "too many")
	// Output: user:ann by at most 4 too many
}
