package core

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Errors that a caller can tell apart with [errors.Is]. Each message has a code, such as RL601: docs/errors.md has a section
// for each code, with what to do.
var (
	// ErrNoKey means that the request has no key: the header, cookie or address is missing or empty. Middleware
	// answers 400. FirstOf tries its next key function.
	ErrNoKey = errors.New("ratelimit: the request has no key (RL601)")

	// ErrBadKey means that the request has a key that must not be used, such as an API key sent twice with
	// different values. Middleware answers 400. FirstOf does not try its next key function.
	ErrBadKey = errors.New("ratelimit: the request's key can't be used (RL602)")

	// ErrRewrittenAddr means that the address of a request's peer is not that of its connection: middleware in front has
	// replaced it by what a header field says, and clients can forge that. It is also an ErrBadKey.
	ErrRewrittenAddr error = badKeyError("ratelimit: middleware has rewritten the peer's address (RL620)")

	// ErrUnavailable means that the store could not answer and the policy fails closed. It wraps the cause: a
	// timeout, a refused connection, a key of the wrong type.
	ErrUnavailable = errors.New("ratelimit: store unavailable (RL603)")

	// ErrBreakerOpen means that the limiter did not ask the store, because the store has just failed too often. It
	// is part of Result.Cause, joined with the failure that opened the breaker.
	ErrBreakerOpen = errors.New("ratelimit: circuit breaker is open (RL604)")

	// ErrCost means that a cost is negative.
	ErrCost = errors.New("ratelimit: negative cost (RL605)")

	// ErrUnknownCost is for cost functions to return if they can't determine the cost. The request then costs the
	// smallest Capacity of the policy's limits.
	ErrUnknownCost = errors.New("ratelimit: the cost is not known (RL606)")

	// ErrCapacity means that a wait would never end, because the cost exceeds the Capacity of a limit.
	ErrCapacity = errors.New("ratelimit: cost exceeds the capacity (RL607)")

	// ErrDeadline means that a wait would end after the context's deadline. It did not begin and took nothing.
	ErrDeadline = errors.New("ratelimit: the wait would exceed the context's deadline (RL608)")

	// ErrPromised means that a wait did not begin, because too many tokens are already promised to others.
	ErrPromised = errors.New("ratelimit: too many tokens are promised already (RL609)")

	// ErrUnit means that no limit of the policy counts a unit that a request takes.
	ErrUnit = errors.New("ratelimit: no limit counts this unit (RL610)")

	// ErrApart means that a store can't decide requests in one step, because their buckets are on different servers.
	ErrApart = errors.New("ratelimit: the buckets are on different servers (RL611)")

	// ErrNoCharges means that AllowTogether was called without a [Charge].
	ErrNoCharges = errors.New("ratelimit: AllowTogether: no charges given (RL614)")

	// ErrNoLimiter means that a [Charge] has no Limiter, or one that no constructor returned.
	ErrNoLimiter = errors.New("ratelimit: AllowTogether: a charge has no limiter from NewLimiter (RL615)")

	// ErrNoDecision means that Undo or Settle was called for a [Result] that no limiter returned, such as the zero Result.
	ErrNoDecision = errors.New("ratelimit: no limiter returned this result (RL617)")

	// ErrSettled means that Undo or Settle was called again for a [Result] or [JointResult] that was undone or settled before.
	ErrSettled = errors.New("ratelimit: the decision was undone or settled before (RL616)")

	// ErrClock means that the time is not from 1970 to 2112. A store decides nothing then.
	ErrClock = errors.New("ratelimit: clock out of range (RL612)")
)

// badKeyError is a kind of ErrBadKey with a text and code of its own.
type badKeyError string

func (e badKeyError) Error() string        { return string(e) }
func (e badKeyError) Is(target error) bool { return target == ErrBadKey }

// StateError means that one key of the store can't be used: it holds another type, or bytes that are not a bucket.
// Other keys still work. [Limiter.Reset] makes the key usable again.
type StateError struct{ Reason string }

// Error returns the reason and the code.
func (e *StateError) Error() string { return "stored state: " + e.Reason + " (RL613)" }

// gone wraps an error of the caller's own context. It does not mean that the store failed.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

// ConfigError is one mistake in a configuration. Constructors report all mistakes at once, joined with [errors.Join].
// [errors.As] finds the first.
type ConfigError struct {
	Field  string // as written in Go, such as Policy.Limits[1].Capacity; or the name of an option or an argument
	Value  any    // the field's value
	Reason string // what the value must be
}

// Error returns the field, its value, the reason, and the code in parentheses, if there is one.
func (e *ConfigError) Error() string {
	text := e.Field + ": " + e.value() + " " + e.Reason
	if code := e.Code(); code != "" {
		text += " (" + code + ")"
	}
	return printable.Text(text)
}

// Code returns the code of this kind of mistake, such as RL102. docs/errors.md has a section for each code. Code is empty for
// options of stores and middleware outside this module.
func (e *ConfigError) Code() string {
	for _, kind := range codesOfReasons {
		if strings.HasPrefix(e.Reason, kind.begins) {
			return kind.code
		}
	}
	name := lastName(e.Field)
	if code := codesOfNames[name]; code != "" {
		return code
	}
	function, _, _ := strings.Cut(name, " ") // of which name is an argument
	return codesOfNames[function]
}

// codesOfReasons are the codes of mistakes that can occur in any field, by how the reason begins.
var codesOfReasons = []struct{ begins, code string }{
	{"is not a field", "RL206"},
	{"is given a second time", "RL207"},
	{"is the name of", "RL115"},
	{"is a unit that", "RL117"},
	{"is too large:", "RL204"}, {"is nested too deep", "RL204"}, {"has too many mistakes", "RL204"},
}

// codesOfNames are the codes of all other mistakes, by what lastName returns for the field, or the function in front of it.
// An element of a list has the list's name without the s.
var codesOfNames = map[string]string{
	"name": "RL101", "capacity": "RL102", "refillrate": "RL103", "refillinterval": "RL104", "mode": "RL105", "unit": "RL106",
	"location": "RL107", "anchor": "RL108", "limits": "RL109", "withlimits": "RL109", "perip limits": "RL109", "limit": "RL110",
	"overrides": "RL111", "onfailure": "RL112", "localshare": "RL113", "headers": "RL114", "header": "RL114", "shadow": "RL116",
	"policy": "RL208",

	"newlimiter": "RL301", "new client": "RL302", "redisstore option": "RL303", "withtimeout": "RL304", "withbreaker": "RL304",
	"withdenycache": "RL304", "withlease": "RL304", "withmaxkeys": "RL304", "withclock": "RL305",
	"withkeysecret": "RL318",

	"new limiter": "RL306", "limiter": "RL306", "new key": "RL307", "key": "RL307", "join": "RL307", "firstof": "RL307",
	"byheader": "RL308", "bycookie": "RL308", "byquery": "RL308", "byparam": "RL308", "global": "RL308", "bycontextvalue": "RL309",
	"byrouteof": "RL310", "trustproxies": "RL311", "trustheader": "RL312", "ipv6prefix": "RL313",
	"costbycontentlength": "RL314", "costbycontentlengthor": "RL314", "withsettle": "RL315", "newtogether": "RL316", "withcost": "RL320",
}

// lastName returns the last name in a field, in lower case and without "_": Go and files write fields differently. For an
// element of a list it is the list's name without the s.
func lastName(field string) string {
	field = strings.ReplaceAll(strings.ToLower(field), "_", "")
	if _, key, found := strings.Cut(field, "overrides."); found { // the key may hold any bytes
		end := strings.LastIndexByte(key, ']')
		if end < 0 {
			return "overrides"
		}
		field = "limits[" + key[end:]
	}
	name := field[strings.LastIndexByte(field, '.')+1:]
	if list, _, isElement := strings.Cut(name, "["); isElement {
		return strings.TrimSuffix(list, "s")
	}
	return name
}

// withPage returns err with a last line that names the page of codes, if err has a code.
func withPage(err error) error {
	if !strings.Contains(err.Error(), "(RL") {
		return err
	}
	return fmt.Errorf("%w\nthe codes are explained in docs/errors.md", err)
}

// value returns the value as messages show it.
func (e *ConfigError) value() string {
	if s, ok := e.Value.(string); ok {
		return strconv.Quote(printable.Clip(s, 80))
	}
	return fmt.Sprint(e.Value)
}
