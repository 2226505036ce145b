package policyfile

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// reloading is held by Reload, so that no call sets what it has read before
// another one did.
var reloading sync.Mutex

// Reload reads a file as [LoadFile] does, and gives each limiter the policy of
// its name: all of them, or none. The error reports every mistake in the file,
// each limiter whose policy is not in the file, and each policy that a limiter
// can't take: see [core.Limiter.SetPolicy]. Policies for which there is no
// limiter are checked too. A limiter whose policy is the same as before stays
// as it is, so Reload may be called every few seconds, to follow a file. Calls
// run one after the other. A limiter may refuse its policy after the check, if
// the app takes another unit of it, or calls SetPolicy, at that moment: the error
// says so, and the other limiters have theirs.
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
	next := make(map[*core.Limiter]core.Policy)
	for i, l := range limiters {
		if l == nil {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("policyfile.Reload limiters[%d]", i), Value: nil, Reason: "must be a limiter from core.NewLimiter"})
			continue
		}
		if _, known := next[l]; known {
			continue
		}
		policy, known := policies[l.Name()]
		if !known {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("policyfile.Reload limiters[%d]", i), Value: l.Name(), Reason: "is the policy of this limiter, and not in the file"})
			continue
		}
		next[l] = policy
		errs = append(errs, l.CheckPolicy(policy))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ratelimit: %s: no policy was changed: %w", path, err)
	}
	for _, l := range limiters {
		errs = append(errs, l.SetPolicy(next[l]))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ratelimit: %s: %w", path, err)
	}
	return nil
}
