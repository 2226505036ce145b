package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// rehearsal is what a scenario has at hand.
type rehearsal struct {
	demo  *demo
	id    string
	store core.Store
	undo  []func()
	turn  atomic.Int64
}

// set puts settings in force, with full buckets.
func (r *rehearsal) set(ctx context.Context, s settings) error {
	if _, err := r.demo.change(s, r.store); err != nil {
		return err
	}
	limiter := r.demo.scene.Load().limiter
	keys := []string{core.JoinKey("global", "demo")}
	for _, u := range users {
		keys = append(keys, core.JoinKey("header", "x-user", u))
	}
	for _, key := range keys {
		if err := limiter.Reset(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// say tells the pages how far it is.
func (r *rehearsal) say(progress string) {
	r.demo.hub.send("scenario", map[string]any{"id": r.id, "running": true, "progress": progress})
}

// reply is what came back for one request.
type reply struct {
	status int // 0 when nothing did
	source string
}

var caller = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask sends a request of user's through the next framework in turn.
func (r *rehearsal) ask(ctx context.Context, user string) reply {
	f := frameworks[r.turn.Add(1)%int64(len(frameworks))]
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.demo.url+"/"+f.name+"/limited", nil)
	if err != nil {
		return reply{}
	}
	q.Header.Set(userHeader, user)
	resp, err := caller.Do(q)
	if err != nil {
		return reply{}
	}
	defer func() { _ = resp.Body.Close() }()
	var h hello
	_ = json.NewDecoder(resp.Body).Decode(&h) // of another shape when it was refused
	return reply{resp.StatusCode, h.Source}
}

// burst sends n requests at once and tells how many passed.
func (r *rehearsal) burst(ctx context.Context, user string, n int) (admitted int) {
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if r.ask(ctx, user).status == http.StatusOK {
				sum.Add(1)
			}
		})
	}
	wg.Wait()
	return int(sum.Load())
}

// steadily calls f every d, until it returns false or ctx ends.
func steadily(ctx context.Context, d time.Duration, f func(n int) bool) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for n := 0; f(n); n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
