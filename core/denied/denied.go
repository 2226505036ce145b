// Package denied finds out who is denied most, in bounded memory. A [Top] is an
// observer of limiters:
//
//	top, err := denied.New()
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(top.Observe))
//	…
//	report := top.Report() // of this process; Merge adds up those of others
//
// Keys can be personal data, and a Top keeps some: nothing does unless the app
// installs it. With [WithKeySecret] it keeps hashes.
//
// See [docs/tools.md].
//
// [docs/tools.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/tools.md
package denied

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	defaultKeys   = 100
	mostKeys      = 10_000
	defaultWindow = time.Hour
	longestWindow = 366 * 24 * time.Hour
	mostPolicies  = 1000

	// others is the policy that counts the denials of policies beyond the most.
	others = "(other)"
)

// Top counts the denials of each key, for the keys that are denied most, by
// policy. It is safe for concurrent use, starts no goroutine and needs no
// closing. Make one with [New] for all limiters of a process.
//
// It takes at most about 600 bytes for each of twice [WithMaxKeys] keys of a
// policy: 120 KB by default. Beyond 1,000 policies, all further ones are
// counted as one, "(other)".
type Top struct {
	most   int
	window time.Duration
	secret []byte // nil: keys are kept as they are

	mu       sync.RWMutex // guards policies, and not what is in them
	policies map[string]*counted
}

// Option is an option of [New].
type Option func(*config)

type config struct {
	top      *Top
	mistakes []error
}

// WithMaxKeys sets how many keys are counted of each policy: from 1 to 10,000,
// by default 100. A key that takes more than one of so many denials of a policy
// is always among them.
func WithMaxKeys(n int) Option {
	return func(c *config) {
		if c.top.most = n; n < 1 || n > mostKeys {
			c.mistakes = append(c.mistakes, mistake.New("denied.WithMaxKeys", n, "must be from 1 to 10000"))
		}
	}
}

// WithWindow sets for how long denials count: for d at least, and for twice
// that at most. It is from a second to 366 days, by default an hour.
func WithWindow(d time.Duration) Option {
	return func(c *config) {
		if c.top.window = d; d < time.Second || d > longestWindow {
			c.mistakes = append(c.mistakes, mistake.New("denied.WithWindow", d, "must be from 1s to 8784h, which is 366 days"))
		}
	}
}

// WithKeySecret keeps keys as [store.LogKey] shows them with this secret,
// instead of the keys themselves. Give all replicas the same: at least 16
// random bytes. The secret of the limiters' [core.WithKeySecret] makes a key
// look as in their log lines. A denial then costs about a microsecond more.
func WithKeySecret(secret []byte) Option {
	return func(c *config) {
		c.top.secret = slices.Clone(secret)
		if m := mistake.ShortSecret("denied.WithKeySecret", secret); m != nil {
			c.mistakes = append(c.mistakes, m)
		}
	}
}

// New returns a Top that has counted nothing. The error joins a
// [core.ConfigError] for each mistake in the options.
func New(options ...Option) (*Top, error) {
	c := config{top: &Top{most: defaultKeys, window: defaultWindow, policies: make(map[string]*counted)}}
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	if err := errors.Join(c.mistakes...); err != nil {
		return nil, err
	}
	return c.top, nil
}

// Observe counts a denial, also one of shadow mode. Pass it to
// [core.WithObserver]. A denial costs about 0.2 µs, and 0.3 µs and an allocation
// if the key is new; any other observation costs a comparison.
func (t *Top) Observe(_ context.Context, o core.Observation) {
	if o.Outcome != core.OutcomeDenied && o.Outcome != core.OutcomeShadowDenied {
		return
	}
	key := o.Key
	if key != "" {
		key = t.Form(key)
	}
	p, now := t.policy(o.Policy), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rotate(now, t.window, t.most)
	p.denials.note(key, o.Outcome == core.OutcomeShadowDenied, now)
}

// Form returns key as reports show it: its hash with [WithKeySecret]; else the
// key itself, or, of more than 128 bytes, "sha256:" and its SHA-256, as in
// stores.
func (t *Top) Form(key string) string {
	if t.secret != nil {
		return store.LogKey(t.secret, key)
	}
	return store.Key(key)
}

// Hashed reports whether t keeps keys as hashes.
func (t *Top) Hashed() bool { return t.secret != nil }

func (t *Top) policy(name string) *counted {
	t.mu.RLock()
	p := t.policies[name]
	t.mu.RUnlock()
	if p != nil {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.policies) >= mostPolicies && t.policies[name] == nil {
		name = others
	}
	if p = t.policies[name]; p == nil {
		p = &counted{}
		t.policies[strings.Clone(name)] = p
	}
	return p
}

// Report returns what was counted, by the names of policies. It copies all, so
// its cost grows with [WithMaxKeys].
func (t *Top) Report() Report {
	t.mu.RLock()
	names := slices.Sorted(maps.Keys(t.policies))
	t.mu.RUnlock()
	now := time.Now()
	report := Report{Hashed: t.Hashed(), Policies: []Policy{}}
	for _, name := range names {
		if p := t.policy(name).report(name, now, t.window, t.most); p.Denied > 0 {
			report.Policies = append(report.Policies, p)
		}
	}
	return report
}
