package redisstore

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEvictionPolicyIsWhatServersSay(t *testing.T) {
	for info, want := range map[string]string{
		"# Memory\r\nmaxmemory:1000\r\nmaxmemory_policy:volatile-ttl\r\n": "volatile-ttl true",
		"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n":                 "allkeys-lru false",
		"used_memory:1\r\n": " false",
	} {
		policy, bounded := evictionPolicy(info)
		text := policy + " false"
		if bounded {
			text = policy + " true"
		}
		assert.Equal(t, want, text)
	}
}

// Each policy drops other limits: the line says which.
func TestEachKindOfPolicyIsDescribed(t *testing.T) {
	kinds := map[string]string{}
	for _, policy := range []string{"volatile-ttl", "volatile-lru", "volatile-lfu", "volatile-random"} {
		kinds[drops(policy)] = policy
	}
	assert.Len(t, kinds, 4, "ttl, lru, lfu and random drop different limits")
	for _, kind := range []string{"lru", "lfu", "random"} {
		assert.Equal(t, drops("volatile-"+kind), drops("allkeys-"+kind), "what keys it looks at does not change the order")
	}
}
