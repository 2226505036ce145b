package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

const terminal = 80 // columns

// onTerminal returns what a command prints on a terminal, and fails the test
// for each line that does not fit. whole are keys, which must not be broken:
// one may be longer on a line of its own.
func onTerminal(t *testing.T, whole []string, args ...string) string {
	t.Helper()
	var o, e bytes.Buffer
	env := func(name string) string {
		return map[string]string{"LOG_KEY_SECRET": secret, "ADMINLIMIT_USER": "ann:" + password}[name]
	}
	table.Run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: show.Screen{Writer: &o, Columns: terminal}, Err: &e, Env: env}, args)
	assert.Empty(t, e.String(), "%v", args)
	assert.NotEmpty(t, o.String(), "%v", args)
	for line := range strings.Lines(o.String()) {
		line = strings.TrimSuffix(line, "\n")
		left := line
		for _, key := range whole {
			left = strings.ReplaceAll(left, key, "")
		}
		if alone := strings.Trim(left, " :,"); utf8.RuneCountInString(line) > terminal && alone != "" {
			t.Errorf("%v: %d columns: %s", args, utf8.RuneCountInString(line), line)
		}
	}
	return o.String()
}

// Every help fits a terminal, and its examples can be pasted.
func TestHelpFitsATerminal(t *testing.T) {
	onTerminal(t, nil, "help")
	for _, c := range append(table.Commands, cli.Command{Name: "help"}, cli.Command{Name: "completion"}, cli.Command{Name: "version"}) {
		text := onTerminal(t, nil, "help", c.Name)
		for line := range strings.Lines(c.Details) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "  ") && strings.Contains(line, "ratelimit ") {
				assert.Contains(t, strings.ReplaceAll(text, " \\\n    ", " "), line+"\n", "after a backslash a command goes on")
			}
		}
		for line := range strings.Lines(text) {
			if strings.HasSuffix(line, "\\\n") {
				assert.Zero(t, strings.Count(line, "'")%2, "not between quotes: %s", line)
			}
		}
	}
}

// Every table fits a terminal, whatever it has, and keys stay whole, so that
// they can be pasted.
func TestTablesFitATerminal(t *testing.T) {
	s := serve(t)
	long, spaced := "user:"+strings.Repeat("x", 120), "user:"+strings.Repeat("John Smith ", 9)+"z"
	joined := core.JoinKey("header:x-api-key:k-123", "path:/"+strings.Repeat("p", 60))
	keys := []string{long, spaced, joined, "ip:192.0.2.1"}
	var whole []string
	for _, key := range keys {
		whole = append(whole, "api "+key, key)
	}
	const wide = `- name: api
  limits:
    - {name: burst, capacity: 5, refill_rate: 1, refill_interval: 24h}
    - {name: a-quota-with-a-very-long-name-that-nobody-would-give-but-somebody-did, capacity: 900000000000, refill_rate: 1000000000, refill_interval: 24h}
    - {name: tokens-of-models, unit: tokens, capacity: 1000000, refill_rate: 1000, refill_interval: 24h, max_hold: 10m}
`
	files(t, map[string]string{
		"wide.yaml": wide, "other.yaml": strings.NewReplacer("capacity: 5", "capacity: 4", "refill_interval: 24h", "refill_interval: 48h", "tokens-of", "t-of").Replace(wide),
		"bad.yaml":   "- name: api\n  limits: [ten/min, 5/x, {name: \"" + strings.Repeat("y", 70) + "\", capacity: -1}]\n",
		"doubt.yaml": "- {name: api, limits: [1/s], overrides: {\"1.2.3.4\": [2/s]}}\n",
	})
	wideLimits := []core.Limit{
		{Name: "burst", Capacity: 5, RefillRate: 1, RefillInterval: 24 * time.Hour},
		{Name: "a-quota-with-a-very-long-name-that-nobody-would-give-but-somebody-did", Capacity: 900_000_000_000, RefillRate: 1_000_000_000, RefillInterval: 24 * time.Hour},
		{Name: "tokens-of-models", Unit: "tokens", Capacity: 1_000_000, RefillRate: 1000, RefillInterval: 24 * time.Hour, MaxHold: 10 * time.Minute},
	}
	l := core.Must(core.NewLimiter(s.store, core.Policy{Name: "api", Limits: wideLimits}))
	for _, key := range keys {
		_, err := l.AllowUnits(t.Context(), key, core.Units{core.Requests: 5, "tokens": 700})
		require.NoError(t, err)
		require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{
			Key: key, For: 36 * time.Hour, By: "an operator with a long name", Reason: strings.Repeat("because ", 12),
			Limits: []core.Limit{{Name: "burst", Capacity: 1, RefillRate: 1, RefillInterval: 24 * time.Hour}},
		}))
		require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: key, By: "bob"}))
	}
	host, port, _ := strings.Cut(s.addr, ":")
	live := func(command string, args ...string) []string {
		return append([]string{command, "-h", host, "-p", port, "-prefix", s.prefix, "-rate", "0", "-timeout", "5s", "-policies", "wide.yaml"}, args...)
	}
	for _, line := range [][]string{
		live("list", "api"), live("list", "-most", "1", "api"), live("find", "k-123"), live("find", long, spaced), live("exceptions", "api"), live("exceptions"), live("history", "api"),
		live("get", "api", long), live("get", "api", spaced), live("get", "-plan", "", "api", joined), live("doctor", "-store-timeout", "1m"),
		{"diff", "wide.yaml", "other.yaml"}, {"check", "bad.yaml"}, {"check", "doubt.yaml", "wide.yaml"},
	} {
		text := onTerminal(t, whole, line...)
		if line[0] == "list" && line[len(line)-2] != "1" || line[0] == "exceptions" {
			for _, key := range keys {
				assert.Contains(t, text, key, "%v: a key stays whole", line)
			}
		}
	}

	for _, key := range keys {
		for _, line := range [][]string{
			live("debit", "api", key, "burst", "1"), live("credit", "api", key, "burst", "2"), live("reset", "api", key), live("block", "api", key, "-by", "bob", "-reason", strings.Repeat("because ", 12)),
			live("unblock", "api", key), live("unblock", "api", key), live("override", "api", key, "x10", "-for", "90m"), live("override", "-remove", "api", key),
			live("block", "api", "ip:192.0.2.2"), live("get", "api", "ip:192.0.2.2"), live("unblock", "api", "ip:192.0.2.2"),
		} {
			onTerminal(t, whole, line...)
		}
	}
	onTerminal(t, whole, live("credit", "-all", "-yes", "api", "burst", "2")...)

	log := "time,ip,user\n"
	for i := range 400 {
		log += fmt.Sprintf("2026-03-02 %02d:00:00,192.0.2.%d,%s\n", i%24, i%3, strings.Repeat("u", 1+i%100))
	}
	require.NoError(t, os.WriteFile("a.csv", []byte(log), 0o600))
	for _, key := range []string{"ip", "user"} {
		line := []string{"replay", "-policies", "wide.yaml", "-key", key, "-format", "csv"}
		for _, limit := range []string{"3/h burst 1 name a", "2/day aligned in Europe/Berlin", "1/h", "4/h stepped", "5/h"} {
			line = append(line, "-limit", limit)
		}
		var users []string
		for i := range 101 {
			users = append(users, "user:"+strings.Repeat("u", i))
		}
		onTerminal(t, users, append(line, "a.csv")...)
	}

	p := replicaOf(t, 5, httptest.NewServer)
	denied := append([]string{strings.Repeat("y", 128)}, keys...)
	for i, key := range denied {
		p.deny(t, key, 1234*(i+1))
	}
	whole = append(whole, denied...)
	_ = s.store.ReadExceptions(t.Context(), p.limiter) // it has no such limits, and obeys the blocks
	onTerminal(t, whole, live("exceptions", "-wait", "0", "api", "-replicas", p.url)...)
	onTerminal(t, whole, "top", p.url, strings.Replace(p.url, "127.0.0.1", "localhost", 1))
}
