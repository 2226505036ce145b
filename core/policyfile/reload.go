package policyfile

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

var prepare = hook.PreparePolicy.(func(*core.Limiter, core.Policy) (finish func(set bool), err error))

// reloading is held by Reload. So two calls that prepare several limiters never
// wait for each other, and none sets what it has read before another one did.
var reloading sync.Mutex

// Reload reads a file as [LoadFile] does, and gives each limiter the policy of
// its name: all of them, or none. The error reports every mistake in the file,
// each limiter whose policy is not in the file, and each policy that a limiter
// can't take: see [core.Limiter.SetPolicy]. Policies for which there is no
// limiter are checked too. A limiter whose policy is the same as before stays
// as it is, so Reload may be called every few seconds, to follow a file. Calls
// run one after the other.
//
// Replace the file as a whole: write another one and rename it, as Kubernetes
// does with a ConfigMap. Of a file that is half written, Reload finds only that
// brackets are open or fields are missing: YAML without brackets that ends
// early can be a valid file.
func Reload(path string, limiters ...*core.Limiter) error {
	reloading.Lock()
	defer reloading.Unlock()
	policies, err := LoadFile(path)
	if err != nil {
		return err
	}
	var errs []error
	set := false
	prepared := make(map[*core.Limiter]bool)
	for i, l := range limiters {
		if l == nil {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("policyfile.Reload limiters[%d]", i), Value: nil, Reason: "must be a limiter from core.NewLimiter"})
			continue
		}
		if prepared[l] {
			continue
		}
		policy, known := policies[l.Name()]
		if !known {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("policyfile.Reload limiters[%d]", i), Value: l.Name(), Reason: "is the policy of this limiter, and not in the file"})
			continue
		}
		finish, err := prepare(l, policy)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		prepared[l] = true
		defer func() { finish(set) }() // also if a policy observer panics
	}
	if len(errs) > 0 {
		return fmt.Errorf("ratelimit: %s: no policy was changed: %w", path, errors.Join(errs...))
	}
	set = true
	return nil
}
