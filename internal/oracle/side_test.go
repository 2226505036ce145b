package oracle

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// side is one store, as two processes use it.
type side struct {
	name     string
	index    int
	limiters [2]map[string]*core.Limiter // by process and policy
	versions [2]map[string]int           // that they have
	expiry   *expiry                     // of Redis
}

// open opens the sides of a history: MemoryStore, and Redis if there are clients
// for both processes.
func (p *player) open(clients [2]*redis.Client) (closeAll func()) {
	clock := core.WithClock(func() time.Time { return time.UnixMicro(p.now) })
	memory := core.NewMemoryStore(clock)
	if p.oneShard {
		memory = core.NewMemoryStore(clock, core.WithMaxKeys(1000))
	}
	p.sides = []*side{p.newSide("MemoryStore", memory, memory)}
	if clients[0] == nil {
		return func() {}
	}
	prefix := redistest.Prefix()
	var stores [2]*redisstore.Store
	for i, client := range clients {
		stores[i] = redisstore.New(client, clock, redisstore.WithPrefix(prefix), redisstore.WithTimeout(10*time.Second), redisstore.WithDenyCache(0))
	}
	p.sides = append(p.sides, p.newSide("Redis", stores[0], stores[1]))
	p.sides[1].index, p.sides[1].expiry = 1, &expiry{clients[0], prefix, p.now, time.Now()}
	return func() {
		for _, s := range stores {
			_ = s.Close()
		}
		clients[0].FlushAll(context.Background())
	}
}

func (h *history) newSide(name string, stores ...core.Store) *side {
	s := &side{name: name}
	for i, store := range stores {
		s.limiters[i], s.versions[i] = make(map[string]*core.Limiter), make(map[string]int)
		for policy := range h.limits {
			s.limiters[i][policy] = core.Must(core.NewLimiter(store, h.policy(policy, 0), core.WithLogger(slog.New(slog.DiscardHandler))))
		}
	}
	return s
}

func (h *history) policy(name string, version int) core.Policy {
	return core.Policy{Name: name, Limits: h.limits[name][version], OnFailure: core.FailClosed}
}

// limiter returns the limiter of a process and a version of a policy.
func (s *side) limiter(h *history, process, version int, policy string) *core.Limiter {
	l := s.limiters[process][policy]
	if s.versions[process][policy] == version {
		return l
	}
	if !h.setPolicy {
		return core.Must(l.WithLimits(h.limits[policy][version]...))
	}
	s.versions[process][policy] = version
	if err := l.SetPolicy(h.policy(policy, version)); err != nil {
		panic(err)
	}
	return l
}

// units is what a request takes.
func (q request) units() core.Units {
	units := core.Units{core.Requests: q.requests}
	if q.countsTokens {
		units["tokens"] = q.tokens
	}
	return units
}

// decide asks for a decision. It returns the whole and its parts.
func (s *side) decide(h *history, q request) (whole view, parts []*core.Result) {
	ctx, l := context.Background(), s.limiter(h, q.process, q.version, q.key)
	units := q.units()
	var r core.Result
	var err error
	switch {
	case q.kind == together:
		charges := []core.Charge{{Limiter: l, Key: q.key, Units: units}, {Limiter: s.limiter(h, q.process, q.version, "b"), Key: "b", Units: core.Units{core.Requests: q.other}}}
		if q.twice > 0 {
			units[core.Requests] -= q.twice
			if n := units[core.Requests]; n > 0 && !q.countsTokens {
				charges[0].Units, charges[0].Cost = nil, n
			}
			charges = append(charges, core.Charge{Limiter: l, Key: q.key, Cost: q.twice})
		}
		if q.floor > 0 {
			floor := core.Units{}
			if q.countsTokens {
				floor["tokens"] = q.floor
			}
			if q.requests > 0 {
				floor[core.Requests] = q.floor
			}
			charges[0].Floor = floor
		}
		return allowTogether(charges...)
	case q.kind == peek:
		r, err = l.AllowN(ctx, q.key, 0)
	case q.kind == atMost:
		r, err = l.AllowAtMost(ctx, q.key, q.requests)
	case q.floor > 0:
		r, err = l.AllowAbove(ctx, q.key, q.requests, q.floor)
	case q.countsTokens:
		r, err = l.AllowUnits(ctx, q.key+q.fresh, units)
	default:
		r, err = l.AllowN(ctx, q.key+q.fresh, q.requests)
	}
	return look(&r, err), []*core.Result{&r}
}

// allowTogether is core.AllowTogether.
func allowTogether(charges ...core.Charge) (whole view, parts []*core.Result) {
	r, err := core.AllowTogether(context.Background(), charges...)
	for i := range r.Parts {
		parts = append(parts, &r.Parts[i])
	}
	return view{allowed: r.Allowed, retry: r.RetryAfter, failed: err}, parts
}

// reserve reserves requests.
func (s *side) reserve(h *history, q request) (view, *core.Result) {
	r, err := s.limiter(h, q.process, q.version, q.key).Reserve(context.Background(), q.key, q.requests)
	if err != nil {
		return view{failed: err}, nil
	}
	v := look(&r, nil)
	v.delay = max(r.Delay(), r.RetryAfter)
	return v, &r
}

// change changes a key by hand, or what a decision took.
func (s *side) change(h *history, q request, t *decision, used int64) error {
	ctx, l := context.Background(), s.limiter(h, q.process, q.version, q.key)
	switch q.kind {
	case reset:
		return l.Reset(ctx, q.key)
	case refund:
		return l.Refund(ctx, q.key, q.requests)
	case debit:
		return l.Debit(ctx, q.key, q.requests)
	case cancel:
		return t.reservations[s.index].Undo(ctx)
	case undo:
		return t.results[s.index].Undo(ctx)
	case settle:
		return t.results[s.index].Settle(ctx, core.Units{"tokens": used})
	case release:
		return t.results[s.index].Release(ctx)
	default:
		return t.results[s.index].Hold(ctx)
	}
}

// expiry has keys of Redis expire by the clock of a history, which Redis does
// not know.
type expiry struct {
	client *redis.Client
	prefix string
	now    int64 // by that clock, when TTLs were last set
	real   time.Time
}

// shorten makes TTLs shorter by so many ms, and returns a key without a TTL. One
// that has not expired then has 5 s at least, which this machine may need.
var shorten = redis.NewScript(`
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
	local ttl = redis.call('PTTL', key)
	if ttl < 0 then
		return key
	end
	local left = ttl - ARGV[2]
	redis.call('PEXPIRE', key, left > 0 and math.max(5000, left) or 0)
end
return ''`)

// set sets TTLs to what they were if Redis had that clock. Unless keys shall
// expire, they stay as they were.
func (e *expiry) set(now int64, expire bool) error {
	real := time.Now()
	by := e.real.Sub(real)
	if expire {
		by += time.Duration(now-e.now) * time.Microsecond
	}
	key, err := shorten.Run(context.Background(), e.client, nil, e.prefix, by.Milliseconds()).Text()
	if e.now, e.real = now, real; key != "" {
		return fmt.Errorf("%s has no TTL", key)
	}
	return err
}
