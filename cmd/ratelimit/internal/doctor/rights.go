package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// Subject is a server and a store whose keys are there.
type Subject struct {
	Client *redis.Client
	Store  *redisstore.Store
	Prefix string // of the store
}

// Rights does what decisions do at each server, with a key of its own: with
// tokens, slots, and a reset.
func Rights(ctx context.Context, subjects []Subject) (f Findings) {
	var users []string
	for _, s := range subjects {
		user, err := s.Client.Do(ctx, "acl", "whoami").Text()
		if err != nil {
			user = "this user"
		} else {
			user = "user " + user
		}
		if err = s.try(ctx); err == nil {
			users = append(users, user)
			continue
		}
		do := "Limiters of this user fail alike. docs/operations.md has the ACL user that they need."
		switch text := err.Error(); {
		case strings.Contains(text, "OOM"):
			do = "Limiters fail alike, and OnFailure decides, until there is memory: raise maxmemory."
		case strings.Contains(text, "CLUSTERDOWN"):
			do = "Limiters fail alike, and OnFailure decides, until the Cluster is up."
		}
		if len(subjects) > 1 {
			user = s.Client.Options().Addr + ": " + user
		}
		f.add("rights", Fault, user+": "+err.Error(), do)
	}
	if len(users) > 0 {
		where := ""
		if len(subjects) > 1 {
			where = fmt.Sprintf(" on %s", show.Some(int64(len(users)), "master"))
		}
		f.add("rights", OK, users[0]+" may do what decisions, slots and resets do"+where, "")
	}
	return f
}

// try does what decisions do.
func (s Subject) try(ctx context.Context) error {
	limiter, err := core.NewLimiter(s.Store, core.Policy{Name: "ratelimit-doctor", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerSecond(100), core.InFlight(10)}})
	if err != nil {
		return err
	}
	key := rand.Text()
	// Decisions send EVAL only if the server has lost the script.
	if err = s.Client.Eval(ctx, "return 1", []string{s.Prefix + "ratelimit-doctor:" + key}).Err(); err != nil {
		return err
	}
	for range 2 { // a full memory refuses only what changes a key that exists
		res, err := limiter.Allow(ctx, key)
		if err != nil {
			return err
		}
		if err := res.Release(ctx); err != nil {
			return err
		}
	}
	return limiter.Reset(ctx, key)
}
