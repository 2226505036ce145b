package store

// ClassOf returns the class of a key in a store of one shard.
func (s *Memory) ClassOf(policy, key string) *Class {
	c := NewClass(policy, nil)
	sh := s.shards[0]
	return sh.entries[sh.find(c.hashOf(key), c, key)].class
}

// KeyApart reports whether the key is not in its entry.
func (c *Class) KeyApart() bool { return c.key != "" }

// SameRate reports whether the records of c and o have the same definition of
// their limit.
func (c *Class) SameRate(o *Class) bool { return c.rate == o.rate }
