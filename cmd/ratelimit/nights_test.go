package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// nightLines is how many lines a night of docs/operations.md has at most: the
// sign and what to do, and the commands.
const nightLines = 5

// Each night of the page runs on buckets that have its trouble, and each
// command prints what its comment says.
func TestTheNightsOfThePageAreRehearsed(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, nights, found := strings.Cut(string(text), "\n## Nights\n")
	require.True(t, found, "the page has the nights")
	nights, _, _ = strings.Cut(nights, "\n## ")
	s := newStage(t)
	for name, policy := range map[string]string{
		"policies.yaml": "api, limits: [20/min, 10/day name daily]", "wrong.yaml": "api, limits: [20/min, 100/day name daily]",
		"renamed.yaml": "public, limits: [20/min, 10/day name daily]",
		"plans.yaml":   "api, limits: [10/day name daily], plans: {pro: [1000/day name daily]}",
		"exports.yaml": "exports, limits: [{name: work, mode: concurrent, capacity: 2, max_hold: 10m}]",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte("- {name: "+policy+"}\n"), 0o600))
	}
	troubles := map[string]func(*testing.T){
		"A customer is limited": s.clients, "A hot key": s.clients, "Two services, one name": s.clients, "A policy is renamed": s.clients,
		"Another server": s.clients, "A customer is deleted": s.clients, "A shard hangs": s.shardHangs, "A move to TLS": s.secure,
		"A flood of keys": func(t *testing.T) {
			for i := range 500 {
				s.use(t, "api", "query:q:"+strings.Repeat("x", 1+i%50)+string(rune('a'+i/50)), 1, daily)
			}
		},
		"A wrong limit was deployed": func(t *testing.T) {
			s.use(t, "api", "header:x-api-key:k-123", 30, core.PerDay(100).WithName("daily"))
		},
		"A customer with a plan": func(t *testing.T) { s.use(t, "api", "value:user:bob", 10, daily) },
		"Leaked slots": func(t *testing.T) { // nobody releases them
			now, err := s.redis.Time(t.Context()).Result()
			require.NoError(t, err)
			s.useAt(t, now, "exports", "header:x-api-key:k-123", 2, core.InFlight(2).WithName("work").WithMaxHold(10*time.Minute))
		},
		"The block that is gone": func(t *testing.T) {
			store := redisstore.New(s.redis, redisstore.WithTimeout(time.Minute))
			s.follow(t, store)
			require.NoError(t, store.SetException(t.Context(), "api", redisstore.Exception{Key: "ip:192.0.2.7", By: "bob", Reason: "scraper"}))
			_, err := store.RemoveException(t.Context(), "api", redisstore.Removal{Key: "ip:192.0.2.7", By: "eve", Reason: "a customer called"})
			require.NoError(t, err)
		},
		"Redis was flushed": func(t *testing.T) {
			s.clients(t)
			require.Contains(t, s.bash(t, "ratelimit copy redis://old:6379 redis://new:6379"), "4 keys copied")
			require.NoError(t, s.redis.FlushAll(t.Context()).Err())
		},
	}
	rehearsed := 0
	for _, section := range strings.Split(nights, "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		trouble := troubles[name]
		if !assert.NotNil(t, trouble, "the night %q has no buckets to rehearse with", name) {
			continue
		}
		rehearsed++
		lines := 0
		for line := range strings.Lines(body) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "```") {
				lines++
			}
		}
		assert.LessOrEqual(t, lines, nightLines, "%s: who is called at night reads %d lines", name, nightLines)
		commands := blocks.FindStringSubmatch(body)
		require.NotNil(t, commands, "%s has commands", name)
		s.clear(t)
		trouble(t)
		for line := range strings.Lines(commands[2]) {
			command, says, commented := strings.Cut(strings.TrimSpace(line), " # ")
			require.True(t, commented && says != "", "%s: a comment is what the command prints: %s", name, line)
			assert.Contains(t, s.bash(t, command), says, "%s: %s", name, command)
		}
	}
	assert.Equal(t, len(troubles), rehearsed, "each trouble has its night")
}
