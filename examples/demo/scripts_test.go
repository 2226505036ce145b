//go:build !js

package main

import (
	"encoding/json"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counted are a stage's decisions by lane and status, from the log.
func counted(t *testing.T, d *server, stage string) map[string]map[int]int {
	t.Helper()
	counts := map[string]map[int]int{}
	for _, m := range logOf(t, d, stage) {
		if counts[m.Lane] == nil {
			counts[m.Lane] = map[int]int{}
		}
		counts[m.Lane][m.Status]++
	}
	return counts
}

func TestAllModesSeeTheSameTraffic(t *testing.T) {
	t.Parallel() // it mostly waits
	d := serve(t)
	text := playedOut(t, d, "modes", "play", order{})
	require.Contains(t, text, "they differ in when")
	counts := counted(t, d, "modes")
	require.Len(t, counts, 3)
	require.Len(t, logOf(t, d, "modes"), 3*(15+3*14), "a page that comes later gets all that the words count")
	limit := d.stage("modes").settings.limit()
	for mode, n := range counts {
		require.GreaterOrEqual(t, n[200], 10, mode)
		require.LessOrEqual(t, int64(n[200]), limit.MaxIn(60*time.Second), mode)
	}
}

// Two replicas and five frameworks share one bucket.
func TestReplicasShareABucket(t *testing.T) {
	t.Parallel()
	d := serve(t)
	playedOut(t, d, "share", "play", order{})
	log := logOf(t, d, "share")
	counts := counted(t, d, "share")
	passed := counts["A"][200] + counts["B"][200]
	require.InDelta(t, 2*passed, counts["alone A"][200]+counts["alone B"][200], 2, "two buckets let twice as many pass")
	took := time.Duration((log[len(log)-1].At - log[0].At) * float64(time.Millisecond))
	require.LessOrEqual(t, int64(passed), d.stage("share").most(took+time.Second/10), "what one bucket admits")
	require.GreaterOrEqual(t, passed, 10)
	by := map[string]bool{}
	for _, m := range log {
		by[m.Framework] = true
	}
	require.Len(t, by, 5)
}

// levels are the tokens of the lanes of chapter 3, and whether none decides in Redis.
func levels(t *testing.T, d *server) (tokens map[string]int64, alone bool) {
	t.Helper()
	tokens, alone = map[string]int64{}, true
	for _, b := range d.look(t.Context()) {
		if b.Stage == "lose" && len(b.Limits) > 0 {
			tokens[b.Lane] = b.Limits[0].Tokens
			alone = alone && b.Source != "store"
		}
	}
	return tokens, alone
}

func TestReplicasDriftApartAndMeetAgain(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T){
		"on a Redis": func(t *testing.T) {
			if _, err := exec.LookPath("redis-server"); err != nil {
				t.Skip("needs redis-server on the PATH")
			}
		},
		"with a store that stands in": func(t *testing.T) { t.Setenv("PATH", "") },
	} {
		t.Run(name, func(t *testing.T) {
			prepare(t)
			d := serve(t)
			power := func(on bool) {
				status, _ := call(t, d, http.MethodPost, "/api/redis", fields{"on": on})
				require.Equal(t, http.StatusOK, status)
				require.Equal(t, on, d.box.state().Up)
			}
			ask := func(lane string, n int) (passed int) {
				p := &player{demo: d.demo, stage: d.stage("lose")}
				for range n {
					if p.ask(t.Context(), "", lane).status == http.StatusOK {
						passed++
					}
				}
				return passed
			}
			require.NoError(t, d.box.turn(t.Context(), true))
			require.Equal(t, 2, ask("local A", 2))
			shared, _ := levels(t, d)
			require.EqualValues(t, 8, shared["local A"])
			require.EqualValues(t, 8, shared["local B"], "one bucket for both")
			require.EqualValues(t, 10, shared["open A"], "each policy has its own")
			power(false)
			require.Zero(t, ask("closed A", 3), "fail closed: nothing is allowed")
			require.Equal(t, 30, ask("open A", 30), "fail open: everything is allowed")
			together := ask("local A", 15) + ask("local B", 15)
			require.GreaterOrEqual(t, together, 20, "two half-buckets")
			require.LessOrEqual(t, together, 22, "together they allow twice the limit, and what refills meanwhile")
			_, alone := levels(t, d)
			require.True(t, alone)
			power(true)
			require.Eventually(t, func() bool {
				shared, alone := levels(t, d)
				return !alone && shared["local A"] == shared["local B"] && math.Abs(float64(shared["local A"]-9)) <= 1
			}, time.Minute, 20*time.Millisecond, "both are back on Redis, at the level that it has kept")
		})
	}
	d := serve(t)
	for _, body := range []any{"", fields{}, 7} {
		status, _ := call(t, d, http.MethodPost, "/api/redis", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%v", body)
	}
}

// The chapter tells of the three policies side by side, at a rate that denies.
func TestTheOutageIsPlayed(t *testing.T) {
	t.Parallel()
	d := serve(t)
	text := playedOut(t, d, "lose", "play", order{})
	require.Contains(t, text, "together they allow at most twice the limit")
	counts := counted(t, d, "lose")
	for _, by := range []string{" A", " B"} {
		require.Equal(t, map[int]int{200: 4, 503: 16}, counts["closed"+by], "without Redis nothing is allowed")
		require.Equal(t, map[int]int{200: 4 + 16}, counts["open"+by], "without Redis everything is allowed")
	}
	require.Zero(t, counts["local A"][503])
	require.Positive(t, counts["local A"][429], "denied, also without Redis")
	require.True(t, d.box.state().Up, "Redis is back")
	require.Len(t, logOf(t, d, "lose"), 3*(8+32), "a page that comes later gets all that the words count")
}

// What is said of a chapter is true whatever else is pressed while it plays.
func TestChaptersOnOneRedisDontSpoilEachOther(t *testing.T) {
	t.Parallel()
	d := serve(t)
	said := func(stage string) string {
		st := d.stage(stage)
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.run.Text
	}
	status, _ := call(t, d, http.MethodPost, "/api/run/lose/play", order{})
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool { return !d.box.state().Up }, time.Minute, 20*time.Millisecond, "Redis is lost")
	text := playedOut(t, d, "share", "play", order{})
	require.Equal(t, "Stopped.", said("lose"), "it would turn off the Redis of the one that plays")
	require.Contains(t, text, "of 105 were allowed, without")
	require.NotEqual(t, d.alone(d.stage("share")) > 0, strings.Contains(text, "One bucket for both"), text)

	status, _ = call(t, d, http.MethodPost, "/api/run/share/play", order{})
	require.Equal(t, http.StatusAccepted, status)
	require.Eventually(t, func() bool { return len(logOf(t, d, "share")) > 5 }, time.Minute, 20*time.Millisecond)
	status, _ = call(t, d, http.MethodPost, "/api/redis", map[string]bool{"on": false})
	require.Equal(t, http.StatusOK, status)
	d.playing.Wait()
	require.Contains(t, said("share"), "Redis was away for", "turned off by hand")
}

// A redis-server that was killed by somebody else is started again when a chapter needs it.
func TestAKilledRedisIsStartedAgain(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH")
	}
	t.Parallel()
	d := serve(t)
	require.NoError(t, d.box.turn(t.Context(), true))
	d.box.clients[1].ShutdownNoSave(t.Context())
	require.Error(t, d.box.clients[0].Ping(t.Context()).Err(), "it is dead")
	require.NoError(t, d.box.turn(t.Context(), true))
	require.NoError(t, d.box.clients[0].Ping(t.Context()).Err(), "a Redis that is on answers")
}

func TestUsersHaveBucketsOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := serve(t)
	require.Contains(t, playedOut(t, d, "yours", "users", order{}), "Bob, 1 a second: 5 allowed, 0 denied.")
}

// What the button of a preset says at the end answers the preset's question.
func TestPresetsAnswerTheirQuestions(t *testing.T) {
	t.Parallel()
	for id, answer := range map[string]string{
		"users": `^Ann, 10 a second: 1\d allowed, 3\d denied\. Bob, 1 a second: 5 allowed, 0 denied\.$`,
		"plans": `^Ann, 10 a second: 1\d allowed, 3\d denied\. Bob, 10 a second: (2[89]|3\d) allowed, (1\d|2[012]) denied\.$`,
		"login": `^8 at once: 5 allowed, 3 denied\.$`,
		"quota": `^15 at once: 1\d allowed, \d denied\. Left: \d of 10 requests, 9\d\d of 1000 requests\.$`,
		"model": `^20 at once: (20|1[6-9]) allowed, [0-4] denied\. Left: [0-4] of 20 requests, \d{1,4} of 20000 tokens\.$`,
		"slots": `^10 at once: 3 allowed, 7 denied\.$`,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			d := serve(t)
			p := presets[slices.IndexFunc(presets, func(p preset) bool { return p.ID == id })]
			body, err := json.Marshal(p.Settings)
			require.NoError(t, err)
			_, err = d.stage("yours").change(body)
			require.NoError(t, err)
			require.Regexp(t, answer, playedOut(t, d, "yours", p.Script, order{N: p.N}), p.Asks)
		})
	}
}

// Chapter 1 begins at the same phase of the clock, so that the same one wins each time.
func TestTheClockStrikesASecondAfterTheStart(t *testing.T) {
	for ms := range int64(20_000) {
		now := time.UnixMilli(ms)
		wait := untilBefore(now, 5*time.Second, time.Second)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.Less(t, wait, 5*time.Second)
		require.EqualValues(t, 4000, now.Add(wait).UnixMilli()%5000)
	}
}

func TestSlotsAndPlansAndSettlement(t *testing.T) {
	t.Parallel()
	d := serve(t)
	preset := func(id string) {
		for _, p := range presets {
			if p.ID == id {
				set(t, d, "yours", map[string]any{})
				status, text := call(t, d, http.MethodPost, "/api/settings/yours", p.Settings)
				require.Equal(t, http.StatusOK, status, text)
			}
		}
	}
	preset("slots")
	require.Equal(t, "10 at once: 3 allowed, 7 denied.", playedOut(t, d, "yours", "burst", order{N: 10}))
	preset("plans")
	set(t, d, "yours", fields{"interval_ms": hour})
	require.Equal(t, "25 at once: 10 allowed, 15 denied.", playedOut(t, d, "yours", "burst", order{N: 25, User: "ann"}))
	require.Equal(t, "25 at once: 20 allowed, 5 denied.", playedOut(t, d, "yours", "burst", order{N: 25, User: "bob"}))
	preset("model")
	set(t, d, "yours", fields{"second": fields{"interval_ms": hour, "rate": 1}})
	for i, f := range frameworks {
		playedOut(t, d, "yours", "one", order{Framework: f.name})
		require.Eventually(t, func() bool {
			for _, b := range d.look(t.Context()) {
				if b.Stage == "yours" && b.User == "ann" {
					return len(b.Limits) == 2 && b.Limits[1].Unit == "tokens" && b.Limits[1].Tokens == 20_000-800*int64(i+1)
				}
			}
			return false
		}, 10*time.Second, 10*time.Millisecond, "%s: 1,200 are charged and 400 come back", f.name)
	}
}
