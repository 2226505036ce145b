package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// runHeader names the script that sent a request; stageHeader and laneHeader say where it goes.
const (
	runHeader   = "X-Demo-Run"
	stageHeader = "X-Demo-Stage"
	laneHeader  = "X-Demo-Lane"
)

// played is what became of a stage's latest script.
type played struct {
	Stage   string  `json:"stage"`
	Script  string  `json:"script"`
	Running bool    `json:"running"`
	At      float64 `json:"at"`   // when it began or ended
	Text    string  `json:"text"` // what came of it
}

// order is what a page asks of a script.
type order struct {
	N         int     `json:"n"`         // requests at once
	Rate      float64 `json:"rate"`      // requests a second
	Seconds   float64 `json:"seconds"`   // for so long
	User      string  `json:"user"`      // on whose behalf; "" is the first
	Framework string  `json:"framework"` // "" is each in turn
	Auto      bool    `json:"auto"`      // the page asks by itself, as nobody has done anything yet
}

// scripts are what each stage can play. They return what came of it.
var scripts = map[string]map[string]func(context.Context, *player) string{
	"drain": {"one": one, "burst": burst, "fill": fill},
	"modes": {"play": threeModes},
	"share": {"play": sharedFlood},
	"lose":  {"play": outage},
	"yours": {"one": one, "burst": burst, "steady": steady, "users": bothUsers, "fill": fill},
}

// player sends a script's requests.
type player struct {
	demo  *demo
	stage *stage
	name  string
	part  string // of the script; "": it has none
	order order
	turn  atomic.Int64
}

// reply is what came back for one request: a status, or 0 for nothing.
type reply struct {
	lane, user string
	status     int
	at         time.Time
}

type replies []reply

func (l replies) of(status int, who string) (n int) {
	for _, r := range l {
		if r.status == status && (who == "" || r.user == who || r.lane == who) {
			n++
		}
	}
	return n
}

func (l replies) took() time.Duration { return l[len(l)-1].at.Sub(l[0].at) }

// ask sends a real request through a framework, by default the next in turn.
func (p *player) ask(ctx context.Context, user, lane string) reply {
	framework := p.order.Framework
	if !serves(framework) {
		framework = frameworks[int(p.turn.Add(1)-1)%len(frameworks)].name
	}
	header := http.Header{}
	for name, value := range map[string]string{userHeader: user, stageHeader: p.stage.id, laneHeader: lane, runHeader: cmp.Or(p.part, p.name)} {
		header.Set(name, value)
	}
	status, err := p.demo.send(ctx, "/"+framework+"/limited", header)
	if err != nil {
		status = 0
	}
	return reply{lane, user, status, time.Now()}
}

// atOnce sends n requests at once.
func (p *player) atOnce(ctx context.Context, n int, user string, lanes ...string) replies {
	list := make(replies, n*len(lanes))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { list[i] = p.ask(ctx, user, lanes[i%len(lanes)]) })
	}
	wg.Wait()
	slices.SortFunc(list, func(a, b reply) int { return a.at.Compare(b.at) })
	return list
}

// steadily sends perSecond requests a second for d, each to every lane that lanes returns for it.
func (p *player) steadily(ctx context.Context, perSecond float64, d time.Duration, user string, lanes func(n int) []string) (list replies) {
	every := time.Duration(float64(time.Second) / perSecond)
	var mu sync.Mutex
	var wg sync.WaitGroup
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := range max(1, int(d/every)) {
		for _, l := range lanes(n) {
			wg.Go(func() {
				got := p.ask(ctx, user, l)
				mu.Lock()
				defer mu.Unlock()
				list = append(list, got)
			})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	return list
}

// to is the same lanes for each request.
func to(lanes ...string) func(int) []string { return func(int) []string { return lanes } }

func one(ctx context.Context, p *player) string {
	p.ask(ctx, p.order.User, "")
	return ""
}

func burst(ctx context.Context, p *player) string {
	lanes, seen := p.stage.shown()
	key := seen[max(0, slices.IndexFunc(seen, func(k bucketKey) bool { return k.user == cmp.Or(p.order.User, users[0]) }))].key
	limiter, settings := lanes[0].limiter, lanes[0].settings
	before, err := limiter.Peek(ctx, key)
	list := p.atOnce(ctx, min(max(p.order.N, 1), 1000), p.order.User, "")
	text := fmt.Sprintf("%d at once: %s.", len(list), list.text())
	if p.stage.id == "drain" && err == nil && list.of(http.StatusTooManyRequests, "") > 0 {
		text += fmt.Sprintf(" There were %s, and a request takes %d.", plural(before.Remaining, "token"), settings.Cost)
	}
	if !settings.Second.On {
		return text
	}
	if after, err := limiter.Peek(ctx, key); err == nil {
		var left []string
		for _, l := range after.Limits() {
			left = append(left, fmt.Sprintf("%d of %d %s", l.Remaining, l.Limit.Capacity, cmp.Or(l.Limit.Unit, "requests")))
		}
		text += " Left: " + strings.Join(left, ", ") + "."
	}
	return text
}

func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func steady(ctx context.Context, p *player) string {
	perSecond, seconds := min(max(p.order.Rate, 0.1), 500), min(max(p.order.Seconds, 1), 60)
	list := p.steadily(ctx, perSecond, time.Duration(seconds*float64(time.Second)), p.order.User, to(""))
	return fmt.Sprintf("%g a second for %g s: %s.", perSecond, seconds, list.text())
}

func fill(context.Context, *player) string { return "" } // every script but one, burst, steady and users begins with full buckets

// text is what became of the replies.
func (l replies) text() string {
	text := fmt.Sprintf("%d allowed, %d denied", l.of(200, ""), l.of(429, ""))
	if other := l.of(503, "") + l.of(0, ""); other > 0 {
		text += fmt.Sprintf(", %d failed", other)
	}
	return text
}

func threeModes(ctx context.Context, p *player) string {
	lanes := []string{"continuous", "stepped", "aligned"}
	clock := p.stage.lane("").policy.Limits[0].RefillInterval
	p.demo.tellRun(p.stage, played{Stage: p.stage.id, Script: p.name, Running: true, Text: "It begins a second before the clock strikes, so that it comes out alike each time."})
	select {
	case <-time.After(untilBefore(time.Now(), clock, time.Second)):
	case <-ctx.Done():
		return ""
	}
	p.demo.tellRun(p.stage, played{Stage: p.stage.id, Script: p.name, Running: true})
	list := p.atOnce(ctx, 15, "", lanes...)
	list = append(list, p.steadily(ctx, 3, 14*time.Second, "", to(lanes...))...)
	return fmt.Sprintf("Allowed: continuous %d, stepped %d, aligned %d of %d. Aligned wins here because the clock strikes a second after the start. In the long run each allows ten every five seconds: they differ in when.",
		list.of(200, lanes[0]), list.of(200, lanes[1]), list.of(200, lanes[2]), len(list)/3)
}

// untilBefore is how long it is until so much before the clock strikes the next whole interval.
func untilBefore(now time.Time, interval, before time.Duration) time.Duration {
	past := time.Duration(now.Add(before).UnixNano()) % interval
	return (interval - past) % interval
}

func sharedFlood(ctx context.Context, p *player) string {
	list := p.steadily(ctx, 25, 4200*time.Millisecond, "", func(n int) []string {
		by := []string{"A", "B"}[n%2]
		return []string{by, "alone " + by}
	})
	with, without := list.of(200, "A")+list.of(200, "B"), list.of(200, "alone A")+list.of(200, "alone B")
	text := fmt.Sprintf("With Redis %d of %d were allowed, without %d. ", with, len(list)/2, without)
	if n := p.demo.alone(p.stage); n > 0 {
		return text + fmt.Sprintf("Redis was away for %d of them: each replica had a bucket of its own, and together they may allow twice the limit.", n)
	}
	return text + fmt.Sprintf("One bucket for both: 10 + 1 a second allows at most %d in %.1f s. Two buckets allow twice as many.", p.stage.most(list.took()), list.took().Seconds())
}

// most is how many the first limit allows in d.
func (st *stage) most(d time.Duration) int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.settings.limit().MaxIn(d)
}

func outage(ctx context.Context, p *player) string {
	lanes := func(n int) []string {
		by := []string{" A", " B"}[n%2]
		return []string{"closed" + by, "open" + by, "local" + by}
	}
	p.steadily(ctx, 8, time.Second, "", lanes)
	if ctx.Err() != nil {
		return ""
	}
	p.demo.turnRedis(ctx, false)
	p.part = "outage" // which alone is counted
	list := p.steadily(ctx, 8, 4*time.Second, "", lanes)
	p.demo.turnRedis(context.WithoutCancel(ctx), true)
	count := func(status int, mode string) int { return list.of(status, mode+" A") + list.of(status, mode+" B") }
	return fmt.Sprintf("%d requests each while Redis was off. Closed: %d failed with 503. Open: %d were allowed. Local, the default: %d were allowed and %d denied, because each replica had a bucket of its own: together they allow at most twice the limit.",
		len(list)/3, count(503, "closed"), count(200, "open"), count(200, "local"), count(429, "local"))
}

func bothUsers(ctx context.Context, p *player) string {
	perSecond := min(max(p.order.N, 1), 100) // of Bob
	var ann, bob replies
	var wg sync.WaitGroup
	wg.Go(func() { ann = p.steadily(ctx, 10, 5*time.Second, users[0], to("")) })
	wg.Go(func() { bob = p.steadily(ctx, float64(perSecond), 5*time.Second, users[1], to("")) })
	wg.Wait()
	return fmt.Sprintf("Ann, 10 a second: %s. Bob, %d a second: %s.", ann.text(), perSecond, bob.text())
}

// onBox reports whether a stage has the Redis that can be turned off.
func (d *demo) onBox(st *stage) bool { return st.specs[0].store == core.Store(d.box.plugs[0]) }

// begin takes the stage for a script. It reports whether nothing else plays, and whether the stage is as the script needs it.
func (p *player) begin(cancel context.CancelFunc) bool {
	st := p.stage
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cancel != nil || p.order.Auto && time.Since(st.last) < time.Minute {
		return false
	}
	st.cancel = cancel
	return true
}

// play plays a script to its end. A chapter begins with full buckets, and with Redis.
func (p *player) play(ctx context.Context, script func(context.Context, *player) string) {
	st, text := p.stage, ""
	if p.name == "play" {
		p.demo.forget(st)
	}
	p.demo.tellRun(st, played{Stage: st.id, Script: p.name, Running: true})
	if p.name == "play" || p.name == "fill" {
		if p.demo.onBox(st) {
			for _, other := range p.demo.stages { // two chapters would turn one Redis
				if other != st && p.demo.onBox(other) {
					other.stop()
				}
			}
			p.demo.turnRedis(ctx, true)
		}
		text = p.fill(ctx)
	}
	if text == "" {
		text = script(ctx, p)
	}
	if ctx.Err() != nil {
		text = "Stopped."
	}
	st.mu.Lock()
	st.cancel = nil
	st.mu.Unlock()
	p.demo.tell() // the requests before what came of them
	p.demo.tellRun(st, played{Stage: st.id, Script: p.name, Text: text})
}

// fill makes the stage's buckets full. It waits for a Redis that is busy, or coming back.
func (p *player) fill(ctx context.Context) string {
	for range 50 {
		if err := p.stage.fill(ctx); err == nil || ctx.Err() != nil {
			return ""
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "Redis does not answer, so the buckets could not be filled."
}
