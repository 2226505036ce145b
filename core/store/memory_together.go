package store

import (
	"cmp"
	"context"
	"slices"
)

// DoTogether decides requests in one step. It holds the locks of all their shards.
func (s *Memory) DoTogether(_ context.Context, requests []Request) ([]JointAnswer, error) {
	hashes := make([]uint64, len(requests))
	var shards []*shard
	for i := range requests {
		hashes[i] = requests[i].Hash()
		shards = append(shards, s.shard(hashes[i]))
	}
	index := func(sh *shard) int { return slices.Index(s.shards, sh) }
	slices.SortFunc(shards, func(a, b *shard) int { return cmp.Compare(index(a), index(b)) }) // every goroutine locks in this order, so none waits forever
	shards = slices.Compact(shards)
	for _, sh := range shards {
		sh.mu.Lock()
		defer sh.mu.Unlock()
	}
	now, err := s.now()
	for _, sh := range shards {
		if err == nil && now < sh.latest { // as in Answer
			now, err = s.read()
		}
	}
	if err != nil {
		return nil, err
	}
	for _, sh := range shards {
		sh.latest = now
	}
	decide := func(dry bool) (answers []JointAnswer, all bool) {
		answers, all = make([]JointAnswer, len(requests)), true
		for i := range requests {
			r, a := requests[i], &answers[i]
			r.Probe = dry && !r.Dry
			r.Dry = dry
			a.Err = s.decideAt(s.shard(hashes[i]), hashes[i], &r, &a.Answer, now)
			all = all && a.Err == nil && a.Allowed
		}
		return answers, all
	}
	answers, all := decide(true)
	if all {
		answers, _ = decide(false)
	}
	return answers, nil
}
