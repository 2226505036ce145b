package denied_test

import (
	"context"
	"fmt"
	"testing"
	"unsafe"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
)

// view returns b as a string that shares its memory, as frameworks pass that
// reuse buffers.
func view(b []byte) string { return unsafe.String(&b[0], len(b)) }

// BenchmarkObserve measures what an observation costs: an allowed one, a denial
// of a key that is counted, of one that is not, and with hashes.
func BenchmarkObserve(b *testing.B) {
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprint("ip:192.0.2.", i)
	}
	secret := denied.WithKeySecret(make([]byte, 32))
	for _, c := range []struct {
		name    string
		outcome core.Outcome
		keys    []string
		options []denied.Option
	}{
		{"allowed", core.OutcomeAllowed, keys, nil},
		{"denied", core.OutcomeDenied, keys[:50], nil},
		{"denied new", core.OutcomeDenied, keys, nil},
		{"denied hashed", core.OutcomeDenied, keys[:50], []denied.Option{secret}},
	} {
		b.Run(c.name, func(b *testing.B) {
			top := core.Must(denied.New(c.options...))
			ctx, i := context.Background(), 0
			b.ReportAllocs()
			for b.Loop() {
				top.Observe(ctx, core.Observation{Policy: "api", Outcome: c.outcome, Key: c.keys[i%len(c.keys)]})
				i++
			}
			if counted := len(top.Report().Policies) > 0; counted != (c.outcome == core.OutcomeDenied) {
				b.Fatal("premise: denials are counted, and nothing else")
			}
		})
	}
}
