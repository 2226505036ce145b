package pace

import (
	"context"
	"iter"
	"sync"
	"time"
)

// So many items are worked on at once, at least and at most. What they ask a
// server may share calls. The least keep Redis busy for less than a tenth of a
// millisecond, which is no longer than the way to it.
const (
	fewTogether  = 8
	mostTogether = 64
)

// Each calls do for every item, for several at once, at most perSecond of them
// a second (0: as fast as it can), and then note for each of these, one after
// another. It ends with the first error of note, of items, or of ctx, when the
// items that were begun are done and noted.
func Each[T, R any](ctx context.Context, perSecond int, items iter.Seq2[T, error], do func(T) (R, error), note func(T, R, error) error) error {
	type done struct {
		item   T
		result R
		err    error
	}
	p := New(perSecond, fewTogether, mostTogether)
	size, group := p.Next(), make([]done, 0, mostTogether)
	work := func() (failed error) {
		began := time.Now()
		var all sync.WaitGroup
		for i := range group {
			all.Go(func() { group[i].result, group[i].err = do(group[i].item) })
		}
		all.Wait()
		took := time.Since(began)
		for _, d := range group {
			if err := note(d.item, d.result, d.err); err != nil && failed == nil {
				failed = err
			}
		}
		if failed == nil {
			failed = p.Wait(ctx, len(group), took)
		}
		size, group = p.Next(), group[:0]
		return failed
	}
	for item, err := range items {
		if err != nil {
			return err
		}
		if group = append(group, done{item: item}); len(group) < size {
			continue
		}
		if err := work(); err != nil {
			return err
		}
	}
	if len(group) == 0 {
		return nil
	}
	return work()
}
