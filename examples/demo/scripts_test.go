//go:build !js

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// record counts the decisions that a page is told of, by service and status,
// until counted is called.
func record(t *testing.T, d *demo) (counted func() map[string]map[int]int) {
	t.Helper()
	p := open(t, d)
	counts := map[string]map[int]int{}
	ctx, end := context.WithCancel(t.Context())
	go func() {
		for {
			select {
			case m := <-p.messages:
				if m.name != "decisions" {
					continue
				}
				var list []decision
				_ = json.Unmarshal(m.data, &list)
				for _, m := range list {
					if counts[m.Service] == nil {
						counts[m.Service] = map[int]int{}
					}
					counts[m.Service][m.Status]++
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() map[string]map[int]int {
		synctest.Wait() // so that all were counted
		end()
		synctest.Wait()
		return counts
	}
}

// Three modes see the same traffic, and the words count what pages are told.
func TestTheThreeModesArePlayed(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		counted := record(t, d)
		said := played(t, d, "modes", "play", order{})
		counts := counted()
		require.Len(t, counts, 3)
		for name, of := range counts {
			require.Equal(t, 15+3*14, of[200]+of[429], name)
		}
		allowed := func(name string) int { return counts[name][200] }
		require.Contains(t, said, fmt.Sprintf("continuous %d, stepped %d, aligned %d of 57",
			allowed("continuous"), allowed("stepped"), allowed("aligned")))
		require.Greater(t, allowed("aligned"), allowed("continuous"), "aligned wins, as the words say")
		require.Greater(t, allowed("aligned"), allowed("stepped"))
	})
}

// Two replicas share one bucket in Redis. Without, they allow twice as many.
func TestTheSharedBucketIsPlayed(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		counted := record(t, d)
		said := played(t, d, "share", "play", order{})
		counts := counted()
		with := counts["A"][200] + counts["B"][200]
		without := counts["alone A"][200] + counts["alone B"][200]
		require.EqualValues(t, core.Per(1, time.Second).WithBurst(10).MaxIn(4200*time.Millisecond), with)
		require.Equal(t, 2*with, without)
		require.Contains(t, said, fmt.Sprintf("With Redis %d of 105 were allowed, without %d.", with, without))
		require.Contains(t, said, fmt.Sprintf("at most %d in 4.2 s", with))
	})
}

// The chapter tells of the three policies side by side, at a rate that denies.
func TestTheOutageIsPlayed(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		counted := record(t, d)
		said := played(t, d, "lose", "play", order{})
		counts := counted()
		for _, replica := range []string{" A", " B"} {
			require.Equal(t, map[int]int{200: 4, 503: 16}, counts["closed"+replica], "without Redis nothing is allowed")
			require.Equal(t, map[int]int{200: 4 + 16}, counts["open"+replica], "without Redis everything is allowed")
			require.Equal(t, map[int]int{200: 4 + 10, 429: 6}, counts["local"+replica], "a bucket of its own")
		}
		require.Contains(t, said, "Local, the default: 20 were allowed and 12 denied")
		require.False(t, d.redis.off.Load(), "Redis is back")
	})
}

// Turned off by hand, two replicas have a bucket each. Turned on, they share the
// one in Redis again, which has kept its tokens.
func TestReplicasDriftApartAndMeetAgain(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		turn := func(on bool) {
			asks(t, d, http.StatusOK, http.MethodPost, "/api/redis", fields{"on": on})
		}
		ask := func(service string, n int) (allowed int) {
			p := &player{demo: d, chapter: d.chapter("lose")}
			for range n {
				if p.ask(t.Context(), "", service).status == http.StatusOK {
					allowed++
				}
			}
			return allowed
		}
		require.Equal(t, 2, ask("local A", 2))
		require.EqualValues(t, 8, tokens(t, d, "lose")["local B"], "one bucket for both")
		require.EqualValues(t, 10, tokens(t, d, "lose")["open A"], "each policy has its own")
		turn(false)
		require.Zero(t, ask("closed A", 3), "fail closed: nothing is allowed")
		require.Equal(t, 30, ask("open A", 30), "fail open: everything is allowed")
		require.Equal(t, 20, ask("local A", 15)+ask("local B", 15), "together they allow twice the limit")
		turn(true)
		require.EqualValues(t, 8, tokens(t, d, "lose")["local A"])
		require.EqualValues(t, 8, tokens(t, d, "lose")["local B"])
		for _, body := range []any{"", fields{}, 7} {
			asks(t, d, http.StatusUnprocessableEntity, http.MethodPost, "/api/redis", body)
		}
	})
}

func TestAScriptPlaysOnceAndCanBeStopped(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		asks(t, d, http.StatusAccepted, http.MethodPost, "/api/run/yours/steady", order{Rate: 2})
		time.Sleep(3 * time.Second)
		require.Contains(t, open(t, d).hello, `"script":"steady","running":true`, "a page that comes later can stop it")
		text := asks(t, d, http.StatusConflict, http.MethodPost, "/api/run/yours/users", order{})
		require.Contains(t, text, "it plays already")
		asks(t, d, http.StatusNoContent, http.MethodDelete, "/api/run/yours", nil)
		d.playing.Wait()
		require.Equal(t, "Stopped.", d.chapter("yours").run.Text)
		for _, path := range []string{"/api/run/nowhere/play", "/api/run/drain/play", "/api/settings/share"} {
			asks(t, d, http.StatusNotFound, http.MethodPost, path, order{})
		}
		asks(t, d, http.StatusUnprocessableEntity, http.MethodPost, "/api/run/yours/burst", "many")
	})
}

// What the button of a preset says at the end answers the preset's question.
func TestPresetsAnswerTheirQuestions(t *testing.T) {
	answers := map[string]string{
		"users": `^Ann, 10 a second: 14 allowed, 36 denied\. Bob, 1 a second: 5 allowed, 0 denied\.$`,
		"plans": `^Ann, 10 a second: 14 allowed, 36 denied\. Bob, 10 a second: 29 allowed, 21 denied\.$`,
		"login": `^8 at once: 5 allowed, 3 denied\.$`,
		"quota": `^15 at once: 10 allowed, 5 denied\. Left: 0 of 10 requests, 990 of 1000 requests\.$`,
		"model": `^20 at once: 20 allowed, 0 denied\. Left: 0 of 20 requests, 4000 of 20000 tokens\.$`,
		"slots": `^10 at once: 3 allowed, 7 denied\.$`,
	}
	require.Len(t, answers, len(presets))
	for id, answer := range answers {
		t.Run(id, func(t *testing.T) {
			playing(t, func(t *testing.T, d *demo) {
				p := presets[slices.IndexFunc(presets, func(p preset) bool { return p.ID == id })]
				set(t, d, "yours", p.Settings)
				require.Regexp(t, answer, played(t, d, "yours", p.Script, order{N: p.N}), p.Asks)
			})
		})
	}
}

// A request holds its slot while it is at work, and pages see it at once.
func TestSlotsAreSeenWhileTheyAreInUse(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		set(t, d, "yours", threeAtOnce())
		p := open(t, d)
		asks(t, d, http.StatusAccepted, http.MethodPost, "/api/run/yours/burst", order{N: 10})
		began := time.Now()
		list := read[[]decision](t, p.next("decisions"))
		require.Len(t, list, 10)
		require.Less(t, time.Since(began), time.Second, "the work goes on")
		slots := func(limits []level) int64 { return limits[1].Tokens }
		require.Zero(t, slots(list[9].Limits))
		for told := int64(0); told < 3; {
			told = slots(read[[]bucket](t, p.next("buckets"))[0].Limits)
		}
		require.GreaterOrEqual(t, time.Since(began), 2*time.Second, "each takes two seconds")
	})
}

// Chapter 1 begins at the same phase of the clock, so that the same mode wins
// each time.
func TestTheClockStrikesASecondAfterTheStart(t *testing.T) {
	for ms := range int64(20_000) {
		now := time.UnixMilli(ms)
		wait := untilBefore(now, 5*time.Second, time.Second)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.Less(t, wait, 5*time.Second)
		require.EqualValues(t, 4000, now.Add(wait).UnixMilli()%5000)
	}
}
