package adaptertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// secret stands in errors for what no client must see.
const secret = "password=hunter2"

var errSecret = errors.New("dial tcp: " + secret)

// wantRefusal checks the answer to a request that could not be decided.
func (c *trial[K, O]) wantRefusal(got response, status int, when string) {
	c.t.Helper()
	if !c.wantStatus(got, status, when) {
		return
	}
	if all := fmt.Sprint(got.header, got.body); strings.Contains(all, secret) || strings.Contains(all, "ratelimit:") {
		c.errorf("%s: the answer shows an internal error: %s", when, all)
	}
	if found := limitFields(got.header); len(found) > 0 {
		c.errorf("%s: nothing is known of the limit, but the answer has %q", when, found)
	}
	if c.kit.ProblemBody {
		c.wantProblem(got, status, when)
	} else if e := got.header.Get(ErrorHeader); e != fmt.Sprint(status) {
		c.errorf("%s: the error handler got an error of status %q, want %d", when, e, status)
	}
}

// wantProblem checks that a body is a problem (RFC 9457) of the status.
func (c *trial[K, O]) wantProblem(got response, status int, when string) (p problem) {
	c.t.Helper()
	if ct := got.header.Get("Content-Type"); ct != "application/problem+json" {
		c.errorf("%s: Content-Type is %q, want application/problem+json", when, ct)
	}
	if err := json.Unmarshal([]byte(got.body), &p); err != nil || p.Type == "" || p.Title == "" || p.Status != status {
		c.errorf("%s: the body is %q (%v), want a type, a title and status %d", when, got.body, err, status)
	}
	return p
}

type problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	ViolatedPolicies []string `json:"violated-policies"`
}
