package redisstore

import (
	"encoding/binary"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// setOf returns the set of limits, as a limiter of them has it.
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

// decisions returns how many calls a command of the plain script with one limit
// decides.
func decisions(cmd redis.Cmder) (n int) {
	for _, times := range timesOf(cmd) {
		n += int(times)
	}
	return n
}

// timesOf returns how many times a command of the plain script takes of each of
// its keys.
func timesOf(cmd redis.Cmder) []int64 {
	keys, _ := cmd.Args()[2].(int)
	args := cmd.Args()[3+keys:] // the limits; if there are more, the action and counts
	var counts []byte
	if len(args) > 2 {
		counts, _ = args[2].([]byte)
	}
	times := make([]int64, keys)
	for i := range times {
		if times[i] = 1; len(counts) > 0 {
			times[i] = int64(binary.BigEndian.Uint64(append([]byte{0}, counts[7*i:7*i+7]...)))
		}
	}
	return times
}

// grant answers a command of the plain script with one limit. It allows all.
func grant(cmd redis.Cmder) {
	const now = 1_800_000_000_000_000
	number := func(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))[1:]) }
	var reply strings.Builder
	for _, times := range timesOf(cmd) {
		reply.WriteString(number(times) + number(now) + number(1) + number(now) + number(0))
	}
	cmd.(sentOnce).SetVal(reply.String())
}
