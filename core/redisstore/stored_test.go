package redisstore

import (
	"context"
	"encoding/binary"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// StoredState returns what Redis keeps of a key, as Request.Decide writes it:
// the holds of each page behind the pages, and pages without their ids. It
// returns "" if there is no key.
func StoredState(t interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}, client redis.UniversalClient, key string) string {
	t.Helper()
	kept, err := client.Get(context.Background(), key).Result()
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return kept
	}
	fields, err := client.HGetAll(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	var state []byte
	rest := fields[""]
	take := func(n int) string {
		if len(rest) < n {
			t.Fatalf("the records of %s end early: %x", key, fields[""])
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	used := 1
	for rest != "" {
		record := take(bucket.RecordSize)
		state = append(state, record...)
		if len(rest) >= 4 && rest[:4] == record[:4] {
			state = append(state, take(bucket.CutSize)...)
		}
		if len(rest) < 4 || rest[:4] != "\x00\x00\x00\x00" {
			continue
		}
		head := take(bucket.HoldsSize)
		state = append(state, head...)
		short := func(s string) int { return int(binary.BigEndian.Uint16([]byte(s))) }
		front, pages := short(head[bucket.HoldsSize-11:]), short(head[bucket.HoldsSize-9:])
		state = append(state, take(front*bucket.HoldSize)...)
		var holds []byte
		for range pages {
			page := take(2 + bucket.PageHead)
			state = append(state, page[2:]...)
			field, is := fields[record[:4]+page[:2]]
			size := short(page[2:]) * bucket.HoldSize
			if !is || len(field) < size {
				t.Fatalf("the field of a page of %d holds of %s has %d bytes", short(page[2:]), key, len(field))
			}
			used++
			holds = append(holds, field[len(field)-size:]...)
		}
		state = append(state, holds...)
	}
	if used != len(fields) {
		t.Fatalf("%s has %d fields, of which %d are used", key, len(fields), used)
	}
	return string(state)
}
