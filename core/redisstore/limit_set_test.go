package redisstore

import (
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// setOf returns the set of limits. A limit without a name gets a tag by its
// place.
func setOf(limits ...core.Limit) *bucket.LimitSet {
	rates := make([]bucket.Rate, len(limits))
	for i, l := range limits {
		tag := uint32(i + 1)
		if l.Name != "" {
			tag = bucket.TagOf(l.Name, bucket.Mode(l.Mode))
		}
		rates[i] = bucket.NewRate(bucket.Spec{
			Capacity: l.Capacity, RefillRate: l.RefillRate, RefillInterval: l.RefillInterval, Mode: bucket.Mode(l.Mode),
		}, tag)
	}
	return bucket.NewLimitSet(rates)
}

// callOf returns a call for r.
func callOf(key string, r store.Request) *call { return &call{member: member{key: key, request: r}} }
