package core

import (
	"testing"
	"unique"
)

// Two keys of the same hash must not share an entry, in whatever order they are added and removed.
func TestShardKeepsKeysOfTheSameHashApart(t *testing.T) {
	const hash = 7
	policies := []unique.Handle[string]{unique.Make("a"), unique.Make("b")}
	keys := []string{"", "x", "y", "22 bytes kept as such..", "23 bytes are a string: a", "23 bytes are a string: b"}
	for first := range len(policies) * len(keys) {
		var sh shard
		var entries []*entry
		for _, p := range policies {
			for _, k := range keys {
				e := &entry{policy: p}
				e.setKey(k)
				sh.add(e, hash)
				entries = append(entries, e)
			}
		}
		for removed := range entries {
			for i, e := range entries {
				want := e
				if n := (i - first + len(entries)) % len(entries); n < removed {
					want = nil
				}
				if got := sh.find(hash, policies[i/len(keys)], keys[i%len(keys)]); got != want {
					t.Fatalf("%d removed from %d on: entry %d is %p, want %p", removed, first, i, got, want)
				}
			}
			sh.remove(entries[(first+removed)%len(entries)], hash)
		}
		if len(sh.entries) != 0 || len(sh.byUse) != 0 || len(sh.byFull) != 0 {
			t.Fatal("entries are left behind")
		}
	}
}
