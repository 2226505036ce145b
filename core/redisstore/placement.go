package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// placement finds out whether a client for one server talks to one. Some proxies,
// such as twemproxy and Envoy, share the keys among servers and send a script to
// that of its first key: there it sees none of the others, so it takes tokens
// that are not there. Behind such a proxy a script call has one key. The server
// is asked before the first script call with several keys. If it can't be asked,
// it counts as one that has all keys, and is asked again.
type placement struct {
	asked atomic.Bool // at least once
	known atomic.Bool // the server has answered, or there are several

	mu   sync.Mutex // held while somebody asks the server
	next time.Time  // not to be asked again before, because it has failed; guarded by mu
}

const (
	// probeKeys is how many keys a script must see that were written one by one.
	// Two servers of a proxy have all of them on one of the two once in 32,768
	// times.
	probeKeys = 16
	probeTTL  = 10 * time.Second
	// probeEvery is how often the server is asked, as long as it fails.
	probeEvery = time.Second

	countLua = `local n = 0 for i = 1, #KEYS do n = n + redis.call('DEL', KEYS[i]) end return n`
)

// oneKey reports whether a script call has one key. Until the server was asked
// it has: then oneKey asks in the background.
func (s *batches) oneKey() bool {
	p := &s.placement
	if !p.known.Load() && p.mu.TryLock() {
		if !p.due(s) {
			p.mu.Unlock()
		} else {
			go func() {
				defer p.mu.Unlock()
				p.ask(context.Background(), s)
			}()
		}
	}
	return s.sharded.Load() || !p.asked.Load()
}

// wait asks the server, unless it has answered before.
func (p *placement) wait(ctx context.Context, s *batches) {
	if p.known.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due(s) {
		p.ask(ctx, s)
	}
}

// due reports whether the server is to be asked now. p.mu is held.
func (p *placement) due(s *batches) bool {
	return !p.known.Load() && !time.Now().Before(p.next) && !s.nodes.home.breaker.Open()
}

// ask asks the server. p.mu is held.
func (p *placement) ask(ctx context.Context, s *batches) {
	apart, err := s.keysApart(ctx)
	defer p.asked.Store(true)
	switch {
	case crossSlot(err): // a Cluster's node, or its proxy, which says so itself
		s.sharded.Store(true)
	case err != nil:
		p.next = time.Now().Add(probeEvery)
		return
	case apart:
		s.sharded.Store(true)
		s.config.Log().Warn("ratelimit: this is a proxy that sends a script to the server of its first key: from now on each call has one key; keep all keys of a policy on one server by a hash tag, or give the servers to a client of go-redis",
			"code", "RL723", "server", s.address)
	}
	p.known.Store(true)
}

// keysApart writes keys one by one, and reports whether a script that deletes
// all of them misses some, which expire. It takes the store's timeout at most.
func (s *batches) keysApart(ctx context.Context) (apart bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	name := s.prefix + endOfPrefix + "ping:" + rand.Text() // no key of a bucket
	count := []any{"eval", countLua, probeKeys}
	var sets []redis.Cmder
	for i := range probeKeys {
		key := fmt.Sprint(name, i)
		sets = append(sets, redis.NewStatusCmd(ctx, "set", key, "1", "px", probeTTL.Milliseconds()))
		count = append(count, key)
	}
	if err := s.runAll(ctx, sets); err != nil {
		return false, err
	}
	found := redis.NewIntCmd(ctx, count...)
	err = s.runAll(ctx, []redis.Cmder{found})
	return err == nil && found.Val() < probeKeys, err
}

// runAll sends commands until ctx ends, and returns their errors.
func (s *batches) runAll(ctx context.Context, list []redis.Cmder) error {
	if !s.run(ctx, list) {
		return ctx.Err()
	}
	var errs []error
	for _, cmd := range list {
		errs = append(errs, withoutArguments(cmd.Err()))
	}
	return errors.Join(errs...)
}
