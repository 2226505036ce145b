package clientlimit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit/internal/advice"
)

// Refusal is what an answer says to do with its request, and with others of its
// key. The zero Refusal is that of an answer which is none.
type Refusal struct {
	Kind RefusalKind

	// After is for how long the requests of the key pause. 0 means that the
	// answer does not say: then it is a second at first, and doubles with each
	// refusal in a row up to a minute.
	After time.Duration

	// All has all limits of the key pause, if the service names several. By
	// default only the one that the answer names pauses.
	All bool
}

// RefusalKind is the kind of a [Refusal].
type RefusalKind uint8

const (
	// NotRefused answers are the caller's.
	NotRefused RefusalKind = iota

	// Refused requests came too early for a limit, and were not executed. The
	// key pauses, and then they are sent again.
	Refused

	// Unavailable means that the service can't answer for a time. The key
	// pauses. The request may have been executed, so it is sent again only if
	// executing it twice does no harm.
	Unavailable

	// RefusedForGood requests would be refused again, however long they wait:
	// the account has spent all it may. The answer is the caller's, and nothing
	// pauses.
	RefusedForGood
)

// ReadRefusal is the rule by which a [Transport] reads answers, unless
// [WithRefusal] sets another one. start is the start of the body.
//
//   - 429 is Refused, but RefusedForGood if the field X-Should-Retry says false
//     or the body has a code of OpenAI or Anthropic for spent budgets, such as
//     insufficient_quota.
//   - 403 is Refused if it has Retry-After, says that nothing is left, or names
//     a secondary rate limit, as GitHub does. After that, 403 and 429 have All
//     limits pause, for a minute if the answer does not say how long.
//   - 429 has All limits pause if X-RateLimit-Scope or X-RateLimit-Global says
//     so, as Discord does.
//   - 503, and the 529 of Anthropic, are Unavailable if they have Retry-After.
func ReadRefusal(res *http.Response, start []byte) Refusal {
	return readRefusal(res, start, advice.Read(res.Header, time.Now()))
}

func readRefusal(res *http.Response, start []byte, a advice.Advice) Refusal {
	status, pause := res.StatusCode, pauseOf(a)
	tooMany, forbidden := status == http.StatusTooManyRequests, status == http.StatusForbidden
	switch {
	case tooMany && (res.Header.Get("X-Should-Retry") == "false" || isSpent(start)):
		return Refusal{Kind: RefusedForGood}
	case (tooMany || forbidden) && bytes.Contains(start, []byte("secondary rate limit")):
		return Refusal{Refused, cmp.Or(pause, time.Minute), true} // GitHub asks for a minute at least
	case tooMany:
		all := res.Header.Get("X-Ratelimit-Scope") == "global" || res.Header.Get("X-Ratelimit-Global") == "true"
		return Refusal{Refused, pause, all}
	case forbidden && (pause > 0 || slices.ContainsFunc(a.Quotas, isEmpty)):
		return Refusal{Refused, pause, false}
	case (status == http.StatusServiceUnavailable || status == statusOverloaded) && a.RetryAfter > 0:
		return Refusal{Unavailable, a.RetryAfter, false}
	}
	return Refusal{}
}

const statusOverloaded = 529

// pauseOf returns how long an answer asks to wait; 0: it does not say. Without
// Retry-After it is the reset of a limit of which nothing is left.
func pauseOf(a advice.Advice) time.Duration {
	if a.RetryAfter > 0 {
		return a.RetryAfter
	}
	var longest time.Duration
	for _, q := range a.Quotas {
		if isEmpty(q) {
			longest = max(longest, q.Reset)
		}
	}
	return longest
}

func isEmpty(q advice.Quota) bool { return q.Left == 0 }

// isSpent reports whether the body of a 429 says that a budget is spent, so that
// waiting does not help.
func isSpent(start []byte) bool {
	var body struct {
		Error struct {
			Type    string `json:"type"` // of OpenAI
			Code    string `json:"code"` // likewise
			Details struct {
				Code string `json:"error_code"` // of Anthropic
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(start, &body) // fields of other types stay empty
	e := body.Error
	return slices.ContainsFunc([]string{e.Type, e.Code, e.Details.Code}, func(code string) bool {
		return slices.Contains(spentCodes, code) || strings.HasSuffix(code, "_spend_limit_exceeded")
	})
}

var spentCodes = []string{
	"insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted", "organization_usage_limit_exceeded",
	"enforced_spend_limit_reached",
}

const (
	// startBytes and startFor bound what is read of the body of an answer that
	// may be a refusal.
	startBytes = 16 << 10
	startFor   = time.Second
)

// readStart reads the start of an answer's body. The caller finds it there
// again.
func readStart(res *http.Response) []byte {
	body := res.Body
	if body == http.NoBody {
		return nil
	}
	stop := time.AfterFunc(startFor, func() { _ = body.Close() }) // so a Read that hangs ends
	start, err := io.ReadAll(io.LimitReader(body, startBytes))
	stop.Stop()
	rest := io.Reader(body)
	if err != nil {
		rest = failed{err}
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), rest), body}
	return start
}

// failed is the rest of a body that could not be read.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
