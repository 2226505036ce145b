package adminlimit

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

type config struct {
	settings  series.Settings // the stores and the mistakes
	authorise Authorise
	challenge string
	hosts     []string // empty: all
	writable  bool
	limiters  []*core.Limiter // in the order of their names
	byName    map[string]*core.Limiter
	path      string      // of the policy file; "" if there is none
	denied    *denied.Top // nil: nothing counts denials
	logger    *slog.Logger
	showKeys  bool
}

// Option is an option of [New].
type Option func(*config)

// Limiters adds the limiters that the handler shows and changes: one of each
// policy name.
func Limiters(limiters ...*core.Limiter) Option {
	limiters = slices.Clone(limiters)
	return func(c *config) {
		for i, l := range limiters {
			field := fmt.Sprintf("New limiters[%d]", i)
			switch {
			case l == nil:
				c.settings.ArgumentError(field, nil, "must be a limiter from core.NewLimiter")
			case c.byName[l.Name()] != nil:
				c.settings.ArgumentError(field, l.Name(), "is the policy of an earlier limiter too: give one limiter of each policy")
			default:
				c.byName[l.Name()] = l
				c.limiters = append(c.limiters, l)
			}
		}
	}
}

// Writable lets those that Authorise lets in reset keys, turn shadow mode on
// and off, and reload the policy file. Without it the handler changes nothing.
func Writable() Option { return func(c *config) { c.writable = true } }

// WithChallenge answers a request of nobody known with 401 instead of 403, and
// this WWW-Authenticate field, such as `Basic realm="rate limits"`: browsers
// then ask for a password.
func WithChallenge(challenge string) Option {
	return func(c *config) {
		if c.challenge = challenge; challenge == "" {
			c.settings.ArgumentError("WithChallenge", challenge, `must be a WWW-Authenticate field, such as "Basic realm=limits"`)
		}
	}
}

// WithPolicyFile names the file that reload reads, by policyfile.Reload: it
// must have the policies of all [Limiters], and sets all of them or none.
func WithPolicyFile(path string) Option {
	return func(c *config) {
		if c.path = path; path == "" {
			c.settings.ArgumentError("WithPolicyFile", path, "must be the path of a policy file")
		}
	}
}

// WithRedisStore shows what a store did, under a name of its own, in UTF-8.
func WithRedisStore(name string, store storestats.Source) Option {
	return func(c *config) { c.settings.AddStore(name, store) }
}

// WithDenied shows who is denied most. The limiters must have
// core.WithObserver(top.Observe).
func WithDenied(top *denied.Top) Option {
	return func(c *config) {
		if c.denied = top; top == nil {
			c.settings.ArgumentError("WithDenied", nil, "must come from denied.New")
		}
	}
}

// WithLogger sets where changes are logged, at level info: who did what, to
// which policy and key, and what was before and after. The default is
// [slog.Default], as with nil. Keys are as in the log of their limiter: see
// [core.WithKeySecret].
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// WithKeysInLog logs keys as they are, not as hashes. They can be personal
// data.
func WithKeysInLog() Option { return func(c *config) { c.showKeys = true } }
