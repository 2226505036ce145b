package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unsafe"

	"github.com/tokenbucket-go/ratelimit/core"
)

var keyRules = []storeRule{
	{"every policy and key has a bucket of its own", addressesKeptApart},
	{"a bucket is found again under any key", addressesFoundAgain},
	{"a store that keeps a key clones it", keysCloned},
}

// addresses returns pairs of policy and key that a careless join, escape or cut
// confuses.
func addresses() [][2]string {
	long := strings.Repeat("x", 1<<20)
	sum := sha256.Sum256([]byte(long))
	list := [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a", ":b:c"}, {"a:", "b:c"}, {"a", "b"}, {"a", "b:"},
		{"a%3Ab", "c"}, {"a", "b%3Ac"}, {"a%3A", "b"}, {"A", "b"}, {"a", "B"}, {"a b", "c"}, {"a", "b c"}, {"a", " b"},
	}
	for _, each := range []string{
		"x", "{x}", "{x", "x}", "{}", "{{x}}", "%7Bx%7D", "%257Bx%257D", "%", "%%", "x%00", "*", "x*", "[x]", "?",
		"\x00", "\x00\x00", "x\x00", "\x00x", "x\x00y", "\n", "x\n", "x\r\n", "x\ny", "x\r\ny", "\r\n$1\r\n", "\t",
		"\xff", "\xff\xfe", "\xff\xff", "\uFFFD", "\xc3", "é", "e\u0301", "日本", "💧",
		long[:127], long[:128], long[:129], long, long + "x", long[:1<<20-1] + "y", "y" + long[1:],
		"sha256:" + hex.EncodeToString(sum[:]), "sha256:" + strings.ToUpper(hex.EncodeToString(sum[:])), "sha256:",
	} {
		list = append(list, [2]string{"keys", each})
	}
	return list
}

// short shortens an address for a failure message.
func short(address [2]string) [2]string {
	if len(address[1]) > 80 {
		address[1] = address[1][:40] + "…" + address[1][len(address[1])-8:]
	}
	return address
}

func addressesKeptApart(s *subject) {
	// All limits have one name, so that only the address keeps two buckets
	// apart.
	limit := core.Limit{Name: "one", Capacity: 1000, RefillRate: 1000, RefillInterval: 1000 * 3600e9}
	list := addresses()
	for i, a := range list { // each address has its own cost
		res, err := s.limiterOf(a[0], limit).AllowN(s.Context(), a[1], int64(i+1))
		if err != nil {
			s.Fatalf("policy and key %q: %v", short(a), err)
		}
		if want := 1000 - int64(i+1); res.Remaining != want {
			s.Errorf("policy and key %q were never used and have %d tokens left after a cost of %d, want %d: they share another's bucket",
				short(a), res.Remaining, i+1, want)
		}
	}
	for i, a := range list {
		res, err := s.limiterOf(a[0], limit).Peek(s.Context(), a[1])
		if want := 1000 - int64(i+1); err != nil || res.Remaining != want {
			s.Errorf("policy and key %q have %d tokens left (%v), want %d: another took from their bucket", short(a), res.Remaining, err, want)
		}
	}
}

func addressesFoundAgain(s *subject) {
	for _, a := range addresses() {
		l := s.limiterOf(a[0], core.PerDay(3))
		for left := int64(2); left >= 0; left-- {
			// An equal key in other memory.
			res, err := l.Allow(s.Context(), strings.Clone(a[1]))
			if err != nil || !res.Allowed || res.Remaining != left {
				s.Fatalf("policy and key %q: allowed %v with %d left, %v; want %d left", short(a), res.Allowed, res.Remaining, err, left)
			}
		}
		if err := l.Reset(s.Context(), a[1]); err != nil {
			s.Fatalf("Reset of policy and key %q: %v", short(a), err)
		}
		if res, err := l.Peek(s.Context(), a[1]); err != nil || res.Remaining != 3 {
			s.Errorf("Reset of policy and key %q left %d tokens, %v; want 3", short(a), res.Remaining, err)
		}
	}
}

// keysCloned uses keys that are views of a buffer, and reuses it: see
// store.Request.Key.
func keysCloned(s *subject) {
	for _, length := range []int{1, 20, 100, 128} {
		buffer := bytes.Repeat([]byte{'a'}, length)
		view := unsafe.String(&buffer[0], length)
		l := s.limiter(core.PerDay(10))
		uses := func(cost, left int64, allowed bool) {
			s.Helper()
			res, err := l.AllowN(s.Context(), view, cost)
			if err != nil || res.Allowed != allowed || res.Remaining != left {
				s.Errorf("AllowN(%d) on a key of %d bytes, in a buffer that had other keys before = allowed %v with %d left, %v; want %v with %d left",
					cost, length, res.Allowed, res.Remaining, err, allowed, left)
			}
		}
		uses(4, 6, true)
		uses(7, 6, false) // a deny cache may keep it
		copy(buffer, bytes.Repeat([]byte{'b'}, length))
		uses(7, 3, true)
		copy(buffer, bytes.Repeat([]byte{'a'}, length))
		uses(0, 6, true)
		for _, other := range []struct {
			key  string
			left int64
		}{{strings.Repeat("a", length), 6}, {strings.Repeat("b", length), 3}} {
			copy(buffer, bytes.Repeat([]byte{'c'}, length))
			if res, err := l.Peek(s.Context(), other.key); err != nil || res.Remaining != other.left {
				s.Errorf("a key of %d bytes has %d tokens left (%v), want %d: the store keeps keys that change when their buffer is reused",
					length, res.Remaining, err, other.left)
			}
		}
	}
}
