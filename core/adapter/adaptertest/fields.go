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

// decision is one decision of a policy's model, for the header fields that must tell it.
type decision struct {
	policy  model
	cost    int64
	allowed bool
	now     time.Time
}

// expected are the header fields of a decision. List fields are compared member by member elsewhere:
// they are left out here. A missing name must not be sent.
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

// wrongFields tells how the response's header differs from what the decisions ask for, "" if it does
// not. single is the decision that single-valued fields tell of, lists are all, the outermost first.
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
			case style == core.HeadersDefault || style&core.HeadersIETF != 0:
				policies = append(policies, fmt.Sprintf("%q q=%d w=%d", b.name, b.capacity, b.window()))
				r, t, known := b.ietf(d.cost, d.allowed)
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

// members spells out a list field (RFC 9651), every line of it.
func members(h http.Header, name string) string {
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		return "not a list by RFC 9651: " + err.Error()
	}
	var spelled []string
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return "not a list of items"
		}
		s := fmt.Sprintf("%#v", item.Value)
		for _, p := range item.Params.Names() {
			v, _ := item.Params.Get(p)
			s += fmt.Sprintf(" %s=%v", p, v)
		}
		spelled = append(spelled, s)
	}
	return strings.Join(spelled, ", ")
}

// limitFields are the fields of any style that h has.
func limitFields(h http.Header) (found []string) {
	for _, name := range styleFields {
		for _, v := range h.Values(name) {
			found = append(found, name+": "+v)
		}
	}
	return found
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
