package adaptertest

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/tokenbucket-go/ratelimit/core"
)

// burst and quota form the policy of the header cases. Their rates per second
// are fractions, so a case shows how values are rounded. The second name needs
// escapes.
var (
	burst = core.Limit{Name: "burst", Capacity: 5, RefillRate: 3, RefillInterval: 7 * time.Second}
	quota = core.Limit{Name: `a "quota" \ ;,`, Capacity: 8, RefillRate: 1, RefillInterval: 9 * time.Second}
)

// headers checks what each style sends with allowed and denied responses.
func (s *suite) headers() {
	for _, style := range []struct {
		rule  string
		style core.HeaderStyle
	}{
		{"the default sends the legacy and the Draft8 fields", core.HeadersDefault},
		{"HeadersDraft8 sends only RateLimit and RateLimit-Policy", core.HeadersDraft8},
		{"HeadersLegacy sends only the X-RateLimit fields", core.HeadersLegacy},
		{"HeadersDraft6 sends only the fields of draft 6", core.HeadersDraft6},
		{"styles can be combined", core.HeadersLegacy | core.HeadersDraft6},
		{"HeadersNone sends only Retry-After and Cache-Control, with a denial", core.HeadersNone},
	} {
		s.rule(style.rule, func(c *trial) {
			limits := []core.Limit{burst, quota}
			app := c.use(c.limiter(core.Policy{Name: "test", Limits: limits, Headers: style.style}),
				c.kit.Global("all"), c.kit.WithCost(costHeader))
			policy := newModel(limits...)
			for i, step := range []struct {
				wait    time.Duration
				cost    int64
				allowed bool
			}{
				{0, 1, true}, {0, 0, true}, {1500 * time.Millisecond, 2, true}, {0, 2, true},
				{0, 2, false},                         // burst has less
				{900_001 * time.Microsecond, 1, true}, // and now a fraction of a token
				{0, 1, false},
				{12 * time.Second, 5, false}, // quota has less
				{0, 3, true}, {0, 0, true}, {0, 1, false},
				{0, 6, false}, // more than burst can ever hold
				{0, 9, false}, // more than any can
				{time.Hour, 1, true},
			} {
				c.clock.advance(step.wait)
				policy.refill(step.wait)
				d := decision{policy, step.cost, policy.take(step.cost), c.clock.Now()}
				got := app.send(request{header: header("Cost", itoa(step.cost))})
				when := fmt.Sprintf("step %d, cost %d", i, step.cost)
				if d.allowed != step.allowed {
					c.errorf("%s: the model disagrees with the table of this test", when)
				}
				status := http.StatusOK
				if !d.allowed {
					status = http.StatusTooManyRequests
				}
				c.wantStatus(got, status, when)
				if wrong := c.wrongFields(got.header, style.style, d, d); wrong != "" {
					c.errorf("%s, answered %d:\n%s", when, got.status, wrong)
				}
			}
		})
	}
}

// costHeader is a cost function that reads the cost from the field Cost.
func costHeader(h Header) (int64, error) { return strconv.ParseInt(h("Cost"), 10, 64) }

// The fields of the header styles.
const (
	legacyLimit     = "X-RateLimit-Limit"
	legacyRemaining = "X-RateLimit-Remaining"
	legacyReset     = "X-RateLimit-Reset"
	draft6Limit     = "RateLimit-Limit"
	draft6Remaining = "RateLimit-Remaining"
	draft6Reset     = "RateLimit-Reset"
	policyField     = "RateLimit-Policy"
	ietfField       = "RateLimit"
	retryAfterField = "Retry-After"
	cacheField      = "Cache-Control"
)

var styleFields = []string{
	legacyLimit, legacyRemaining, legacyReset, draft6Limit, draft6Remaining, draft6Reset, policyField, ietfField,
}

// decision is one decision of a policy's model. The header fields must match
// it.
type decision struct {
	policy  model
	cost    int64
	allowed bool
	now     time.Time
}

// expected returns the single-valued header fields of a decision. A field that
// is not in the map must not be sent. List fields are left out: wrongFields
// compares their members.
func (d decision) expected(style core.HeaderStyle) map[string]string {
	want := make(map[string]string)
	tightest := d.policy.tightest(d.cost, d.allowed)
	untilFull := tightest.secondsUntil(tightest.capacity)
	if style == core.HeadersDefault || style&core.HeadersLegacy != 0 {
		want[legacyLimit] = itoa(tightest.capacity)
		want[legacyRemaining] = itoa(tightest.remaining())
		now := big.NewRat(d.now.UnixMicro(), 1_000_000)
		want[legacyReset] = itoa(ceil(new(big.Rat).Add(now, untilFull)))
	}
	if style&core.HeadersDraft6 != 0 {
		want[draft6Limit] = itoa(tightest.capacity)
		want[draft6Remaining] = itoa(tightest.remaining())
		want[draft6Reset] = itoa(ceil(untilFull))
	}
	if !d.allowed {
		want[cacheField] = "no-store"
		if seconds, never := d.policy.retryAfter(d.cost); !never {
			want[retryAfterField] = itoa(seconds)
		}
	}
	return want
}

// wrongFields is wrongFields, except that it compares only Retry-After if
// answers have no fields.
func (c *trial) wrongFields(h http.Header, style core.HeaderStyle, single decision, lists ...decision) string {
	if !c.kit.NoFields {
		return wrongFields(h, style, single, lists...)
	}
	if got, want := h.Get(retryAfterField), single.expected(style)[retryAfterField]; got != want {
		return fmt.Sprintf("retry after %q, want %q", got, want)
	}
	return ""
}

// wrongFields describes how a response's header differs from the decisions, and
// is "" if it does not. single is the decision in the single-valued fields.
// lists are all decisions, the outermost first.
func wrongFields(h http.Header, style core.HeaderStyle, single decision, lists ...decision) string {
	var wrong []string
	want := single.expected(style)
	for _, name := range append(styleFields[:6:6], retryAfterField, cacheField) {
		got := h.Values(name)
		if w, sent := want[name]; sent && (len(got) != 1 || got[0] != w) {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", name, got, w))
		} else if !sent && len(got) != 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want none", name, got))
		}
	}
	var state, policies []string
	for _, d := range lists {
		for _, b := range d.policy {
			switch {
			case style == core.HeadersDefault || style&core.HeadersDraft8 != 0:
				policies = append(policies, fmt.Sprintf("%q q=%d w=%d", b.name, b.capacity, b.window()))
				r, t, known := b.draft8(d.cost, d.allowed)
				member := fmt.Sprintf("%q r=%d", b.name, r)
				if known {
					member += fmt.Sprintf(" t=%d", t)
				}
				state = append(state, member)
			case style&core.HeadersDraft6 != 0:
				policies = append(policies, fmt.Sprintf("%d w=%d", b.capacity, b.window()))
			}
		}
	}
	for _, list := range []struct {
		name string
		want []string
	}{{ietfField, state}, {policyField, policies}} {
		if got, want := members(h, list.name), strings.Join(list.want, ", "); got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q:\n\tgot  %s\n\twant %s", list.name, h.Values(list.name), got, want))
		}
	}
	return strings.Join(wrong, "\n")
}

// members returns the members of a list field (RFC 9651), of all its lines, as
// text.
func members(h http.Header, name string) string {
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		return "not a list as RFC 9651 defines it: " + err.Error()
	}
	var spelled []string
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return "not a list of items"
		}
		var s strings.Builder
		fmt.Fprintf(&s, "%#v", item.Value)
		for _, p := range item.Params.Names() {
			v, _ := item.Params.Get(p)
			fmt.Fprintf(&s, " %s=%v", p, v)
		}
		spelled = append(spelled, s.String())
	}
	return strings.Join(spelled, ", ")
}

// limitFields returns the fields of h that belong to any style.
func limitFields(h http.Header) (found []string) {
	for _, name := range styleFields {
		for _, v := range h.Values(name) {
			found = append(found, name+": "+v)
		}
	}
	return found
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
