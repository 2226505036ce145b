package storetest

import (
	"strings"
	"unsafe"

	"github.com/tokenbucket-go/ratelimit/core"
)

// addresses returns pairs of policy and key that a careless join, escape or cut
// confuses.
func addresses() [][2]string {
	long := strings.Repeat("x", 1<<20)
	list := [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a:", "b:c"}, {"a", ":b:c"}, {"a%3Ab", "c"}, {"a", "b%3Ac"},
		{"A", "b"}, {"a", "B"}, {"a", "b"}, {"a b", "c"}, {"a", "b c"}, {"a", " b"},
	}
	for _, each := range []string{
		"x", "{x}", "{x", "x}", "{}", "{{x}}", "%7Bx%7D", "%257Bx%257D", "%", "%%", "x%00", "*", "x*", "[x]", "?",
		"\x00", "\x00\x00", "x\x00", "\x00x", "x\x00y", "\n", "x\n", "x\r\n", "x\ny", "x\r\ny", "\r\n$1\r\n", "\t",
		"\xff", "\xff\xfe", "\uFFFD", "\xc3", "é", "e\u0301", "日本", "💧",
		long[:127], long[:128], long[:129], long, long + "x", long[:1<<20-1] + "y", "y" + long[1:],
		"sha256:" + strings.Repeat("0", 64), "sha256:",
	} {
		list = append(list, [2]string{"keys", each})
	}
	return list
}

// addressesKeptApart gives each address a cost of its own. All limits have one
// name, so that only the address keeps two buckets apart.
func addressesKeptApart(s *subject) {
	limit := core.PerDay(100_000).WithName("one")
	limiters := map[string]*core.Limiter{}
	for round := range int64(2) {
		for i, a := range addresses() {
			if limiters[a[0]] == nil {
				limiters[a[0]] = s.limiterOf(a[0], limit)
			}
			cost := int64(i + 1)
			res, err := limiters[a[0]].AllowN(s.Context(), strings.Clone(a[1]), cost)
			if s.no(err); res.Remaining != 100_000-cost*(round+1) {
				s.broken("policy %q, key %.40q of %d bytes: %d left after %d requests of %d: it shares a bucket, or has several",
					a[0], a[1], len(a[1]), res.Remaining, round+1, cost)
			}
		}
	}
}

// keysCloned uses keys that are views of a buffer, and reuses it: see
// store.Request.Key. Then it asks for equal keys in other memory.
func keysCloned(s *subject) {
	for _, length := range []int{1, 20, 128} {
		l := s.limiter(core.PerDay(10))
		buffer := make([]byte, length)
		view := unsafe.String(&buffer[0], length)
		ask := func(key string, cost, left int64) {
			s.Helper()
			res, err := l.AllowN(s.Context(), key, cost)
			if s.no(err); res.Remaining != left {
				s.broken("a key of %d bytes in a buffer that had other keys has %d left, want %d", length, res.Remaining, left)
			}
		}
		fill := func(with string) string { copy(buffer, strings.Repeat(with, length)); return view }
		ask(fill("a"), 4, 6)
		ask(fill("a"), 7, 6) // a denial, which the store may remember
		ask(fill("b"), 7, 3)
		ask(fill("a"), 0, 6)
		fill("c")
		ask(strings.Repeat("a", length), 0, 6)
		ask(strings.Repeat("b", length), 0, 3)
	}
}
