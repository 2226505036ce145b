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
	keys, _ := cmd.Args()[2].(int)
	counts, some := cmd.Args()[len(cmd.Args())-2].([]byte)
	if !some {
		return keys
	}
	for i := range keys {
		n += int(binary.BigEndian.Uint32(counts[4*i:]))
	}
	return n
}

// grant answers a command of the plain script with one limit. It allows all.
func grant(cmd redis.Cmder) {
	const now = 1_800_000_000_000_000
	keys, _ := cmd.Args()[2].(int)
	counts, some := cmd.Args()[len(cmd.Args())-2].([]byte)
	number := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)[1:]) }
	var reply strings.Builder
	reply.WriteString(number(now))
	for i := range keys {
		times := uint32(1)
		if some {
			times = binary.BigEndian.Uint32(counts[4*i:])
		}
		reply.Write(binary.BigEndian.AppendUint32(nil, times))
		reply.WriteString("\x00\x00\x00\x01" + number(1) + number(1000) + number(1) + number(now) + number(0) + number(0))
	}
	cmd.(sentOnce).SetVal(reply.String())
}
