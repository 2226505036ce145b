package pictures

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/advice"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// paced is a client of a service that limits rates. It sends one request after
// the other, as fast as its gate lets it, and notes what it sees.
type paced struct {
	gate    *outgoing.Gate
	service *core.Limiter
	began   time.Time

	served []level // how many requests, over time
	rates  []level // that the gate allows, over time
	denied []time.Duration
}

// newPaced returns a client of a service with a limit, whose answers have the
// fields of a style.
func newPaced(limit core.Limit, style core.HeaderStyle) *paced {
	return &paced{
		gate:    outgoing.New(outgoing.Config{Queue: 1, Jitter: func(most time.Duration) time.Duration { return most / 2 }}),
		service: core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{limit}, Headers: style})),
		began:   time.Now(), served: []level{{0, 0}},
	}
}

// run sends requests until at, each of which takes a hundredth of a second.
func (p *paced) run(at time.Duration) {
	for time.Since(p.began) < at {
		turn, err := p.gate.Enter(context.Background(), outgoing.Call{Key: key, Until: p.began.Add(at)})
		if err != nil { // the next one would be later
			return
		}
		time.Sleep(10 * time.Millisecond)
		res := core.Must(p.service.Allow(context.Background(), key))
		fields := http.Header{}
		res.WriteHeaders(fields)
		a, now := advice.Read(fields.Values, time.Now()), time.Since(p.began)
		if res.Allowed {
			turn.Served(a)
			n := p.served[len(p.served)-1].tokens
			p.served = append(p.served, level{now, n}, level{now, n + 1})
		} else {
			turn.Refused(a)
			p.denied = append(p.denied, now)
		}
		turn.End(nil)
		if rate := p.gate.State(key).Rate; rate > 0 {
			p.rates = append(p.rates, level{now, rate})
		}
	}
}

// drawSpread shows how a client spreads what is left until the reset, beside one
// that sends all it can.
func drawSpread() *canvas {
	const top, floor, minutes = 96.0, 336.0, 2
	c := newCanvas(436, "60 requests a minute, reset at each full minute")
	x := func(at time.Duration) float64 { return scale(at.Minutes(), minutes, margin+44, width-margin) }
	y := func(requests float64) float64 { return scale(requests, 120, floor, top) }
	c.scaleY(x(0), x(minutes*time.Minute), y, 0, 60, 120)
	for s := 0; s <= 60*minutes; s += 30 {
		c.text(x(time.Duration(s)*time.Second), floor+28, "soft middle", fmt.Sprintf("%d s", s))
	}
	limit := core.PerMinute(60).WithMode(core.Aligned)
	plain := newClient(limit)
	all := []level{{0, 0}}
	for n := 0; plain.now() < minutes*time.Minute; time.Sleep(10 * time.Millisecond) {
		if allowed, _ := plain.ask(1); allowed == 1 {
			all = append(all, level{plain.now(), float64(n)}, level{plain.now(), float64(n + 1)})
			n++
		}
	}
	all = append(all, level{minutes * time.Minute, all[len(all)-1].tokens})
	p := newPaced(limit, core.HeadersDraft8)
	p.run(minutes * time.Minute)
	c.line(points(all, x, y), 2, "soft-line", "5 5")
	c.line(points(p.served, x, y), 3, "accent-line", "")
	c.line([]point{{margin, 400}, {margin + 30, 400}}, 3, "accent-line", "")
	c.text(margin+42, 406, "soft", "served, paced by what is left")
	c.line([]point{{margin + 360, 400}, {margin + 390, 400}}, 2, "soft-line", "5 5")
	c.text(margin+402, 406, "soft", "as fast as it can")
	c.describe("A client that sends as fast as it can uses its 60 requests when each minute begins. A paced client has %d requests served in "+
		"2 minutes, spread over the time, and %d denied.", int(p.served[len(p.served)-1].tokens), len(p.denied))
	return c
}

// drawLearned shows the rate that a client learns from denials alone.
func drawLearned() *canvas {
	const top, floor, seconds, most = 96.0, 336.0, 60, 100.0
	c := newCanvas(436, "A rate that is learned from denials alone")
	x := func(at time.Duration) float64 { return scale(at.Seconds(), seconds, margin+44, width-margin) }
	y := func(rate float64) float64 { return scale(min(rate, most), most, floor, top) }
	c.scaleY(x(0), x(seconds*time.Second), y, 0, 50, 100)
	for s := 0; s <= seconds; s += 15 {
		c.text(x(time.Duration(s)*time.Second), floor+28, "soft middle", fmt.Sprintf("%d s", s))
	}
	p := newPaced(core.PerSecond(50), core.HeadersNone)
	p.run(seconds * time.Second)
	c.line([]point{{x(0), y(50)}, {x(seconds * time.Second), y(50)}}, 2, "soft-line", "5 5")
	c.line(points(p.rates, x, y), 3, "accent-line", "")
	for _, at := range p.denied {
		c.mark(x(at), top-12, false)
	}
	c.line([]point{{margin, 400}, {margin + 30, 400}}, 3, "accent-line", "")
	c.text(margin+42, 406, "soft", "requests a second")
	c.line([]point{{margin + 240, 400}, {margin + 270, 400}}, 2, "soft-line", "5 5")
	c.text(margin+282, 406, "soft", "the limit")
	c.mark(margin+405, 400, false)
	c.text(margin+420, 406, "soft", "denied")
	c.describe("A service serves 50 requests a second, and says nothing but Retry-After. In %d seconds %d requests of a client were denied, and %d served. "+
		"After each denial the rate is what the service sustained since the one before, and then it rises slowly, and faster with the time.", seconds, len(p.denied), int(p.served[len(p.served)-1].tokens))
	return c
}
