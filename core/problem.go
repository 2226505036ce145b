package core

import (
	"errors"
	"net/http"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers, section 6.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	noFurtherType   = "about:blank"
)

// ProblemDetails is the JSON body of an error response (RFC 9457). Its media type is application/problem+json. It holds
// nothing that a client must not see.
type ProblemDetails struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Problem describes a denied result: status 429 and the names of the limits that lack tokens.
func Problem(res Result) ProblemDetails {
	p := ProblemDetails{
		Type:   quotaExceeded,
		Title:  "Request cannot be satisfied as assigned quota has been exceeded",
		Status: http.StatusTooManyRequests,
	}
	for _, l := range res.Limits() {
		if l.Violated {
			p.ViolatedPolicies = append(p.ViolatedPolicies, l.Limit.Name)
		}
	}
	return p
}

// ProblemOf describes a request that got no decision because of err. It includes nothing of err's text. The status is
//
//   - 400 if the request has no key ([ErrNoKey]), or one that can't be used ([ErrBadKey]),
//   - 503 if the store can't answer and the policy fails closed ([ErrUnavailable]), or if the request's own context
//     has ended,
//   - 500 if a key, cost or limits function failed.
func ProblemOf(err error) ProblemDetails {
	p := ProblemDetails{Type: noFurtherType, Status: http.StatusInternalServerError}
	switch {
	case errors.Is(err, ErrNoKey), errors.Is(err, ErrBadKey):
		p.Status = http.StatusBadRequest
	case errors.Is(err, ErrUnavailable):
		p.Status = http.StatusServiceUnavailable
		p.Type = reducedCapacity
		p.Title = "Request cannot be satisfied due to temporary server capacity constraints"
	case errors.As(err, &callerDone{}):
		p.Status = http.StatusServiceUnavailable
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	return p
}
