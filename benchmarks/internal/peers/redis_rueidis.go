package peers

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
)

// Rueidis is the name of rueidislimiter among the contenders.
const Rueidis = "rueidislimiter"

// newRueidis is on a client of its own kind, which sends the commands of all goroutines down a few
// shared connections.
func newRueidis(to Connection, l Limit) (*Redis, error) {
	var c rueidis.Client
	limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{to.Addr}, SelectDB: to.DB},
		ClientBuilder: func(o rueidis.ClientOption) (_ rueidis.Client, err error) {
			c, err = rueidis.NewClient(o)
			return c, err
		},
		Limit: l.Burst, Window: window,
	})
	if err != nil {
		return nil, err
	}
	return &Redis{
		Name: Rueidis, KeysPerKey: 2, Scripted: true, close: c.Close,
		Decide: func(ctx context.Context, key string) (bool, error) {
			res, err := limiter.Allow(ctx, key)
			return res.Allowed, err
		},
	}, nil
}
