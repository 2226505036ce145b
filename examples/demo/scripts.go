package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// run is what became of a chapter's latest script.
type run struct {
	Chapter string  `json:"chapter"`
	Script  string  `json:"script"`
	Running bool    `json:"running"`
	At      float64 `json:"at"`   // when it began or ended
	Text    string  `json:"text"` // what came of it
}

// order is what a page asks of a script.
type order struct {
	N    int     `json:"n"`    // requests at once, or Bob's a second
	Rate float64 `json:"rate"` // requests a second
	User string  `json:"user"` // on whose behalf; "" is the first
}

// script sends requests. It returns what came of them.
type script func(context.Context, *player) string

// scripts are what each chapter can play.
var scripts = map[string]map[string]script{
	"drain": {"one": one, "burst": burst, "fill": fill},
	"modes": {"play": threeModes},
	"share": {"play": sharedFlood},
	"lose":  {"play": outage},
	"yours": {"one": one, "burst": burst, "steady": steady, "users": bothUsers, "fill": fill},
}

// player sends a script's requests.
type player struct {
	demo    *demo
	chapter *chapter
	name    string // the script's, or a part's
	order   order
}

// reply is what came back for one request.
type reply struct {
	service, user string
	status        int
}

type replies []reply

// of counts the replies with a status, of a user or a service if who names one.
func (l replies) of(status int, who string) (n int) {
	for _, r := range l {
		if r.status == status && (who == "" || r.user == who || r.service == who) {
			n++
		}
	}
	return n
}

func (l replies) text() string {
	text := fmt.Sprintf("%d allowed, %d denied", l.of(200, ""), l.of(429, ""))
	if failed := len(l) - l.of(200, "") - l.of(429, ""); failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}

// ask sends a request to a service.
func (p *player) ask(ctx context.Context, user, service string) reply {
	a := &answer{header: http.Header{}}
	p.chapter.serve(a, newRequest(user).WithContext(ctx), service, p.name)
	return reply{service, user, a.status}
}

// atOnce sends n requests at once to each of the services.
func (p *player) atOnce(ctx context.Context, n int, user string, services ...string) replies {
	list := make(replies, n*len(services))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { list[i] = p.ask(ctx, user, services[i%len(services)]) })
	}
	wg.Wait()
	return list
}

// steadily sends perSecond requests a second for d, each to every service that
// services returns for the nth.
func (p *player) steadily(
	ctx context.Context, perSecond float64, d time.Duration, user string, services func(n int) []string,
) (list replies) {
	every := time.Duration(float64(time.Second) / perSecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := 0; n < max(1, int(d/every)) && ctx.Err() == nil; n++ {
		for _, s := range services(n) {
			wg.Go(func() {
				got := p.ask(ctx, user, s)
				mu.Lock()
				defer mu.Unlock()
				list = append(list, got)
			})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	wg.Wait()
	return list
}

// to returns the same services for each request.
func to(services ...string) func(int) []string {
	return func(int) []string { return services }
}

func one(ctx context.Context, p *player) string {
	p.ask(ctx, p.order.User, "")
	return ""
}

func burst(ctx context.Context, p *player) string {
	limiter, settings := p.chapter.first()
	key := keyOf(settings.Key, newRequest(cmp.Or(p.order.User, users[0])))
	before, err := limiter.Peek(ctx, key)
	list := p.atOnce(ctx, min(max(p.order.N, 1), 1000), p.order.User, "")
	text := fmt.Sprintf("%d at once: %s.", len(list), list.text())
	if p.chapter.id == "drain" && err == nil && list.of(http.StatusTooManyRequests, "") > 0 {
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
	perSecond := min(max(p.order.Rate, 0.1), 500)
	list := p.steadily(ctx, perSecond, 10*time.Second, p.order.User, to(""))
	return fmt.Sprintf("%g a second for 10 s: %s.", perSecond, list.text())
}

// fill sends nothing: play has filled the buckets.
func fill(context.Context, *player) string { return "" }

func threeModes(ctx context.Context, p *player) string {
	_, settings := p.chapter.first()
	clock := settings.limit().RefillInterval
	p.demo.tellRun(p.chapter, run{
		Chapter: p.chapter.id, Script: p.name, Running: true,
		Text: "It begins a second before the clock strikes, so that it comes out alike each time.",
	})
	select {
	case <-time.After(untilBefore(time.Now(), clock, time.Second)):
	case <-ctx.Done():
		return ""
	}
	p.demo.tellRun(p.chapter, run{Chapter: p.chapter.id, Script: p.name, Running: true})
	names := []string{"continuous", "stepped", "aligned"}
	list := p.atOnce(ctx, 15, "", names...)
	list = append(list, p.steadily(ctx, 3, 14*time.Second, "", to(names...))...)
	return fmt.Sprintf("Allowed: continuous %d, stepped %d, aligned %d of %d. "+
		"Aligned wins here because the clock strikes a second after the start. "+
		"In the long run each allows ten every five seconds: they differ in when.",
		list.of(200, names[0]), list.of(200, names[1]), list.of(200, names[2]), len(list)/3)
}

// untilBefore is how long it is until so much before the clock strikes the next
// whole interval.
func untilBefore(now time.Time, interval, before time.Duration) time.Duration {
	past := time.Duration(now.Add(before).UnixNano()) % interval
	return (interval - past) % interval
}

func sharedFlood(ctx context.Context, p *player) string {
	began := time.Now()
	list := p.steadily(ctx, 25, 4200*time.Millisecond, "", func(n int) []string {
		replica := []string{"A", "B"}[n%2]
		return []string{replica, "alone " + replica}
	})
	took := time.Since(began)
	_, settings := p.chapter.first()
	with, without := list.of(200, "A")+list.of(200, "B"), list.of(200, "alone A")+list.of(200, "alone B")
	return fmt.Sprintf("With Redis %d of %d were allowed, without %d. "+
		"One bucket for both: 10 + 1 a second allows at most %d in %.1f s. Two buckets allow twice as many.",
		with, len(list)/2, without, settings.limit().MaxIn(took), took.Seconds())
}

func outage(ctx context.Context, p *player) string {
	services := func(n int) []string {
		replica := []string{" A", " B"}[n%2]
		return []string{"closed" + replica, "open" + replica, "local" + replica}
	}
	p.steadily(ctx, 8, time.Second, "", services)
	if ctx.Err() != nil {
		return ""
	}
	p.demo.turnRedis(false)
	p.name = "outage" // which alone is counted
	list := p.steadily(ctx, 8, 4*time.Second, "", services)
	p.demo.turnRedis(true)
	count := func(status int, policy string) int {
		return list.of(status, policy+" A") + list.of(status, policy+" B")
	}
	return fmt.Sprintf("%d requests each while Redis was off. Closed: %d failed with 503. Open: %d were allowed. "+
		"Local, the default: %d were allowed and %d denied, because each replica had a bucket of its own: "+
		"together they allow at most twice the limit.",
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

// begin takes the chapter for a script. It reports whether nothing else plays.
func (c *chapter) begin(cancel func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		return false
	}
	c.cancel = cancel
	return true
}

// plays reports whether a script plays.
func (c *chapter) plays() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancel != nil
}

// stop ends the script that plays, if one does.
func (c *chapter) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}

// play plays a script to its end. A chapter begins with full buckets, and with
// Redis.
func (p *player) play(ctx context.Context, play script) {
	c, name, text := p.chapter, p.name, ""
	p.demo.tellRun(c, run{Chapter: c.id, Script: name, Running: true})
	if name == "play" || name == "fill" {
		if c.id == "lose" {
			p.demo.turnRedis(true)
		}
		if err := c.fill(ctx); err != nil && ctx.Err() == nil {
			text = "Redis does not answer, so the buckets could not be filled."
		}
	}
	if text == "" {
		text = play(ctx, p)
	}
	if ctx.Err() != nil {
		text = "Stopped."
	}
	c.mu.Lock()
	c.cancel = nil
	c.mu.Unlock()
	p.demo.tellRun(c, run{Chapter: c.id, Script: name, Text: text})
}
