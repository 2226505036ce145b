package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// statuses records the statuses that a Refund function was called with.
type statuses struct {
	mu   sync.Mutex
	seen []int
}

// refunding is a Refund function that returns the tokens for statuses of at
// least 400.
func (s *statuses) refunding(_ Header, status int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, status)
	return status >= 400
}

func (s *statuses) all() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// refund checks WithRefund.
func (s *suite) refund() {
	s.refundStatus()
	s.refundTokens()
	s.refundOnlyCharged()
	s.refundWhere()
}

// refundStatus checks the status that Refund gets.
func (s *suite) refundStatus() {
	for _, reply := range []Reply{
		{Status: 200}, {Status: 201}, {Status: 401}, {Status: 401, AsError: true}, {Status: 404, AsError: true},
		{Status: 500}, {Status: 503, AsError: true},
	} {
		rule := fmt.Sprintf("WithRefund returns tokens by the status that the client gets (%d, as error: %v)", reply.Status, reply.AsError)
		s.rule(rule, func(c *trial) {
			var reported statuses
			l := c.holding(5)
			app := c.serve(c.app(func(context.Context) Reply { return reply },
				middleware{l, c.kit.Global("all"), []anyOption{c.kit.WithCost(costHeader), c.kit.WithRefund(reported.refunding)}, nil, nil, nil}))
			c.wantStatus(app.send(request{header: header("Cost", "3")}), reply.Status, "cost 3 of 5")
			if seen := reported.all(); !slices.Equal(seen, []int{c.kit.known(reply.Status)}) {
				c.errorf("Refund was called with %v, want [%d]", seen, c.kit.known(reply.Status))
			}
			left := int64(5 - 3)
			if reply.Status >= 400 {
				left = 5
			}
			c.wantRemaining(c.use(l, c.kit.Global("all")).send(request{}), left-1, "then cost 1")
		})
	}
	s.rule("a panic of the handler counts as 500", func(c *trial) {
		var reported statuses
		app := c.serve(c.app(func(context.Context) Reply { panic("handler") },
			middleware{c.holding(1), c.kit.Global("all"), []anyOption{c.kit.WithRefund(reported.refunding)}, nil, nil, nil}))
		for i := range 2 {
			c.wantStatus(app.send(request{}), http.StatusInternalServerError, fmt.Sprintf("request %d with a capacity of 1, each refunded", i+1))
		}
		if seen := reported.all(); !slices.Equal(seen, []int{500, 500}) {
			c.errorf("Refund was called with %v, want 500 twice", seen)
		}
	})
}

// refundTokens checks that the tokens of the chosen statuses return.
func (s *suite) refundTokens() {
	for _, status := range []int{200, 201, 401, 503} {
		if !s.kit.Streams || s.kit.RPC {
			break
		}
		s.rule(fmt.Sprintf("after an informational status the one counts that the client gets (%d)", status), func(c *trial) {
			var reported statuses
			app := c.serve(c.app(func(context.Context) Reply { return Reply{Status: status, Hints: true} },
				middleware{c.holding(2), c.kit.Global("all"), []anyOption{c.kit.WithRefund(reported.refunding)}, nil, nil, nil}))
			// Some frameworks take the first status that is written for the
			// last.
			if got, seen := app.send(request{}).status, reported.all(); !slices.Equal(seen, []int{got}) {
				c.errorf("the client got %d, and Refund was called with %v", got, seen)
			}
		})
	}
	for _, reply := range []Reply{
		{Status: 200, Aborts: true}, {Status: 201, Aborts: true}, {Status: 502, Aborts: true}, {Status: 200, Flushes: true},
	} {
		if !s.kit.Streams || s.kit.RPC {
			break
		}
		rule := fmt.Sprintf("a status that was sent counts, even if the handler panics later (%d, flushed without a status: %v)", reply.Status, reply.Flushes)
		s.rule(rule, func(c *trial) {
			var reported statuses
			l := c.holding(2)
			app := c.serve(c.app(func(context.Context) Reply { return reply },
				middleware{l, c.kit.Global("all"), []anyOption{c.kit.WithRefund(reported.refunding)}, nil, nil, nil}))
			for range 2 {
				if got, err := app.try(context.Background(), request{}); err == nil && got.status != reply.Status {
					c.errorf("the premise: the client got %d, want %d", got.status, reply.Status)
				}
			}
			if seen := reported.all(); !slices.Equal(seen, []int{reply.Status, reply.Status}) {
				c.errorf("Refund was called with %v, want %d twice", seen, reply.Status)
			}
			want := http.StatusTooManyRequests
			if reply.Status >= 400 {
				want = http.StatusOK
			}
			c.wantStatus(c.use(l, c.kit.Global("all")).send(request{}), want, "a third request, with a capacity of 2")
		})
	}
}

// refundOnlyCharged checks which requests may be refunded.
func (s *suite) refundOnlyCharged() {
	s.rule("Refund is not called for a request that was denied, skipped or not decided", func(c *trial) {
		var reported statuses
		app := c.use(c.holding(1), c.kit.ByHeader("User"), c.kit.WithRefund(reported.refunding),
			c.kit.WithSkip(func(h Header) bool { return h("Skip") != "" }))
		for _, step := range []struct {
			field  string
			status int
		}{{"User", 200}, {"User", 429}, {"User", 429}, {"Skip", 200}, {"Other", 400}} {
			c.wantStatus(app.send(request{header: header(step.field, "ann")}), step.status, step.field)
		}
		if seen := reported.all(); !slices.Equal(seen, []int{200}) {
			c.errorf("Refund was called with %v, want only the allowed request's 200", seen)
		}
	})
	s.rule("Refund of an outer limiter gets the status of an inner limiter's refusal", func(c *trial) {
		for _, inner := range []struct {
			key    anyKey
			status int
		}{{c.kit.Global("all"), 429}, {c.kit.ByHeader("Missing"), 400}, {c.kit.Custom(func(Header) (string, error) { return "", errSecret }), 500}} {
			var reported statuses
			full, empty := slow(1), slow(2)
			app := c.serve(c.app(answer(http.StatusOK),
				middleware{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{full}}), c.kit.Global(fmt.Sprint(inner.status)), []anyOption{c.kit.WithRefund(reported.refunding)}, nil, nil, nil},
				middleware{c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{empty}}), inner.key, []anyOption{c.kit.WithCost(func(Header) (int64, error) { return 3, nil })}, nil, nil, nil}))
			for range 2 { // the outer limiter has only one token
				c.wantStatus(app.send(request{}), inner.status, "refused by the inner limiter, refunded by the outer one")
			}
			if seen := reported.all(); !slices.Equal(seen, []int{inner.status, inner.status}) {
				c.errorf("Refund was called with %v, want %d twice", seen, inner.status)
			}
		}
	})
}

// refundWhere checks to which bucket tokens return.
func (s *suite) refundWhere() {
	s.rule("tokens taken under other limits return to those limits", func(c *trial) {
		few, many := slow(5), slow(8) // two limits, because a single one shares the bucket of the policy
		few.Name, many.Name = "few", "many"
		app := c.use(c.holding(9), c.kit.Global("all"),
			c.kit.WithRefund(func(h Header, _ int) bool { return h("Refund") != "" }),
			c.kit.WithLimits(func(Header) ([]core.Limit, error) { return []core.Limit{few, many}, nil }))
		for _, step := range []struct {
			field     string
			remaining int64
		}{{"Keep", 4}, {"Keep", 3}, {"Refund", 2}, {"Refund", 2}, {"Keep", 2}, {"Keep", 1}} {
			got := app.send(request{header: header(step.field, "1")})
			if want := fmt.Sprintf("remaining %d of 2 limits, from store", step.remaining); got.body != want {
				c.errorf("%s: answered %d %q, want %q", step.field, got.status, got.body, want)
			}
		}
	})
	s.rule("tokens that the fallback granted during an outage return to the fallback", func(c *trial) {
		var reported statuses
		app := c.serve(c.app(answer(http.StatusUnauthorized),
			middleware{c.limiterOn(brokenStore{}, policyOf(1)), c.kit.Global("all"), []anyOption{c.kit.WithRefund(reported.refunding)}, nil, nil, nil}))
		for range 2 {
			c.wantStatus(app.send(request{}), http.StatusUnauthorized, "with a capacity of 1, each refunded")
		}
	})
}

// refundAfterClient checks a client that does not wait for its answer.
func (s *suite) refundAfterClient() {
	s.rule("tokens are returned even if the client has gone", func(c *trial) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		gone := make(chan struct{})
		handle := func(ctx context.Context) Reply {
			leave()
			if c.kit.ContextEnds {
				<-ctx.Done()
			} else {
				<-gone
			}
			return Reply{Status: http.StatusServiceUnavailable}
		}
		var reported statuses
		store := announcedStore{c.store, make(chan struct{}, 10)}
		l := c.limiterOn(store, policyOf(1))
		app := c.serve(c.app(handle, middleware{l, c.kit.Global("all"), []anyOption{c.kit.WithRefund(reported.refunding)}, nil, nil, nil}))
		if got, err := app.try(ctx, request{}); err == nil {
			c.errorf("the client was answered %d although it had left", got.status)
		}
		close(gone)
		for _, action := range []string{"took", "returned"} {
			if !c.within(store.done) {
				c.errorf("the limiter never %s the token; Refund was called with %v", action, reported.all())
				return
			}
		}
		c.wantRemaining(c.use(l, c.kit.Global("all")).send(request{}), 0, "the next request, with a capacity of 1")
	})
}
