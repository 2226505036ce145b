package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

const (
	// crewSize stores share the buckets. Each has crewWorkers goroutines, and
	// each of those makes one decision every crewPace.
	crewSize    = 3
	crewWorkers = 4
	crewPace    = 8 * time.Millisecond
	// crewKeys buckets hold crewCapacity tokens each. They refill after a day,
	// so not during a test.
	crewKeys     = 4
	crewCapacity = 1 << 20
)

// crewPlan tells where the store is. One of the addresses is set.
type crewPlan struct {
	Name      string // of a client's connections
	Addr      string // of a server
	Sentinels []string
	Nodes     []string // of a Cluster
	Prefix    string
	Confirmed time.Duration // how long a decision waits for a replica; 0: it does not
}

// client returns the client that the plan asks for. It dials once, so a master
// that is away is noticed soon.
func (p crewPlan) client() redis.UniversalClient {
	switch {
	case p.Sentinels != nil:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: p.Sentinels, ClientName: p.Name, ReadTimeout: wait, DialerRetries: 1})
	case p.Nodes != nil:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: p.Nodes, ClientName: p.Name, ReadTimeout: wait, DialerRetries: 1})
	}
	options := &redis.Options{Addr: p.Addr, ClientName: p.Name, ReadTimeout: wait, DialerRetries: 1}
	if p.Confirmed > 0 {
		return confirmedClient(options, p.Confirmed)
	}
	return redis.NewClient(options)
}

// connect returns a limiter over a client of its own.
func (p crewPlan) connect(t *testing.T) *core.Limiter {
	t.Helper()
	client := p.client()
	t.Cleanup(func() { _ = client.Close() })
	return p.limiter(client)
}

// limiter returns a limiter for the crew's buckets.
func (p crewPlan) limiter(client redis.UniversalClient) *core.Limiter {
	store := redisstore.New(client, patient, asking, redisstore.WithPrefix(p.Prefix))
	limit := core.Limit{Capacity: crewCapacity, RefillRate: crewCapacity, RefillInterval: 24 * time.Hour, Mode: core.Stepped}
	return core.Must(core.NewLimiter(store, core.Policy{Name: "crew", Limits: []core.Limit{limit}, OnFailure: core.FailClosed}))
}

// decision is one of a crew. It is neither admitted nor failed if another store
// has drained the bucket already.
type decision struct {
	sent, answered   time.Time
	admitted, failed bool
}

// crew is stores that share buckets, each with a client of its own, as those of
// several processes are.
type crew struct {
	plan     crewPlan
	limiters [crewSize]*core.Limiter
	made     [crewSize * crewWorkers][]decision

	end  func() // the paced decisions
	done sync.WaitGroup
}

// startCrew starts a crew. It makes decisions when startCrew returns.
func startCrew(t *testing.T, plan crewPlan) *crew {
	t.Helper()
	stop := make(chan struct{})
	c := &crew{plan: plan, end: sync.OnceFunc(func() { close(stop) })}
	t.Cleanup(func() { c.end(); c.done.Wait() })
	for i := range c.limiters {
		plan.Name = c.name(i)
		c.limiters[i] = plan.connect(t)
		decidesAgain(t, c.limiters[i], keyNames(crewKeys))
	}
	for i := range c.made {
		c.done.Go(func() { c.made[i] = paced(c.limiters[i/crewWorkers], keyNames(crewKeys)[i%crewKeys], stop) })
	}
	return c
}

// name is what the connections of a client are called.
func (c *crew) name(client int) string { return fmt.Sprint("crew-", client) }

// drain ends the paced decisions, and has all stores drain the buckets. It
// returns the decisions, and how many tokens were drained.
func (c *crew) drain(t *testing.T) (made []decision, drained int64) {
	t.Helper()
	c.end()
	c.done.Wait()
	for _, list := range c.made {
		made = append(made, list...)
	}
	var tokens [crewSize]int64
	var failed [crewSize]error
	var all sync.WaitGroup
	for i, l := range c.limiters {
		if c.plan.Confirmed > 0 { // the successor has no replica
			plan := c.plan
			plan.Confirmed = 0
			l = plan.connect(t)
		}
		decidesAgain(t, l, keyNames(crewKeys))
		all.Go(func() { tokens[i], failed[i] = drain(l, keyNames(crewKeys)) })
	}
	all.Wait()
	for i := range tokens {
		require.NoError(t, failed[i], "premise: the successor decides while the buckets are drained")
		drained += tokens[i]
	}
	return made, drained
}

// paced makes one decision every crewPace. If one takes longer, the next is
// late; none is made up for.
func paced(l *core.Limiter, key string, stop <-chan struct{}) (made []decision) {
	ticks := time.NewTicker(crewPace)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			return made
		case <-ticks.C:
			sent := time.Now()
			res, err := l.Allow(context.Background(), key)
			made = append(made, decision{sent, time.Now(), res.Allowed, err != nil})
		}
	}
}

// drain takes all tokens of keys, in halves, until one token is denied. While
// the nodes of a Cluster do not agree, a client may be sent to a dead one
// again, so drain repeats what certainly was not sent.
func drain(l *core.Limiter, keys []string) (tokens int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for _, key := range keys {
		for cost := int64(crewCapacity); cost > 0; {
			res, err := l.AllowN(ctx, key, cost)
			switch dial := (*net.OpError)(nil); {
			case err == nil && res.Allowed:
				tokens += cost
			case err == nil:
				cost /= 2
			case errors.Is(err, core.ErrBreakerOpen), errors.As(err, &dial) && dial.Op == "dial":
			default:
				return tokens, err
			}
		}
	}
	return tokens, nil
}

// moved waits until each client has a connection to one server and none to
// another. Sentinel sends them there.
func (c *crew) moved(t *testing.T, from, to *redis.Client) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		before, err := from.ClientList(context.Background()).Result()
		require.NoError(t, err)
		after, err := to.ClientList(context.Background()).Result()
		require.NoError(t, err)
		for i := range crewSize {
			assert.NotContains(t, before, "name="+c.name(i)+" ")
			assert.Contains(t, after, "name="+c.name(i)+" ")
		}
	}, wait, tick)
}

// left returns how many tokens the buckets hold.
func left(t *testing.T, l *core.Limiter) (tokens int64) {
	t.Helper()
	for _, key := range keyNames(crewKeys) {
		res, err := l.Peek(context.Background(), key)
		require.NoError(t, err)
		tokens += res.Remaining
	}
	return tokens
}

// busy waits until the crew has used a number of tokens more.
func (c *crew) busy(t *testing.T, client redis.UniversalClient, tokens int64) {
	t.Helper()
	l := c.plan.limiter(client)
	target := left(t, l) - tokens
	require.Eventually(t, func() bool { return left(t, l) <= target }, wait, 10*tick, "the crew makes decisions")
}
