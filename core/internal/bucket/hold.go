package bucket

// A hold is tokens that have left a bucket's level and are not used yet: those of a reservation, which are used when it
// is due, and those on lease, which a process may use at any time until the lease ends.
//
// The tokens keep their room in the bucket. While n tokens are held it refills, and takes tokens back, up to its
// Capacity less n. So the level and what is held are together never more than the Capacity: they are what a plain
// bucket would have that is charged when the tokens are used. A plain bucket admits at most Limit.MaxIn in any window,
// and so does this one, whatever is held, given back or lost.
type hold struct {
	tokens int64
	at     int64 // µs since 1970: the tokens are used by then
	ticket int64 // whoever has it may end the hold
}

const (
	// FirstLease is the smallest ticket of a lease. Those of reservations are smaller.
	FirstLease = 1 << 52
	// AtOnce is more than the ticket of any reservation. It is added to the ticket of one that was due when it was
	// made.
	AtOnce = 1 << 51
	// MaxHolds bounds the holds on one limit's tokens: some 150 kB of stored state.
	MaxHolds = 4096
)

// readHolds reads the records behind a level. It reports whether this package may have written them.
func readHolds(records []Record) (holds []hold, ok bool) {
	before, sum := int64(0), 0.0
	for _, s := range records {
		whole := s.Tokens >= 1 && s.Tokens == float64(int64(s.Tokens))
		if sum += s.Tokens; !whole || sum > Forever || s.At < before || s.Keep == 0 || s.Steps != 0 || s.Fill != (Fill{}) {
			return nil, false
		}
		before = s.At
		holds = append(holds, hold{int64(s.Tokens), s.At, s.Keep})
	}
	return holds, true
}

// record is h as it is stored, behind the level with the same tag.
func (h *hold) record(tag uint32) Record {
	return Record{Tag: tag, Tokens: float64(h.tokens), At: h.at, Keep: h.ticket}
}

// holdsAt reports whether h holds its tokens at an instant. In the microsecond in which a reservation is due, its tokens
// are used after all else. A reservation that was due when it was made is used already, though it may be cancelled.
func (h *hold) holdsAt(now int64) bool {
	return h.at > now || h.at == now && (h.ticket < AtOnce || h.ticket >= FirstLease)
}

// heldAt is how many tokens are held at an instant.
func heldAt(holds []hold, now int64) (tokens int64) {
	for i := range holds {
		if holds[i].holdsAt(now) {
			tokens += holds[i].tokens
		}
	}
	return tokens
}

// addHold adds h behind those that end no later.
func addHold(holds []hold, h hold) []hold {
	holds = append(holds, h)
	for i := len(holds) - 1; i > 0 && holds[i-1].at > h.at; i-- {
		holds[i-1], holds[i] = h, holds[i-1]
	}
	return holds
}

// endHold removes the hold with a ticket and returns its tokens: 0 if there is none.
func endHold(holds []hold, ticket int64) (rest []hold, tokens int64) {
	for i, h := range holds {
		if h.ticket == ticket || h.ticket == ticket+AtOnce {
			return append(holds[:i:i], holds[i+1:]...), h.tokens
		}
	}
	return holds, 0
}

// lastReservation is when the last of the reservations in holds is due, or 0.
func lastReservation(holds []hold) (due int64) {
	for i := len(holds) - 1; i >= 0; i-- {
		if holds[i].ticket < FirstLease {
			return holds[i].at
		}
	}
	return 0
}

// refillAround is refill of a bucket with holds, of which those until `written` are counted. The rest are the holds that
// did not end before now.
func (r *Rate) refillAround(holds []hold, l Level, written, now int64) (_ Level, rest []hold) {
	out := heldAt(holds, written)
	for rest = holds; len(rest) > 0 && rest[0].at < now; rest = rest[1:] {
		if rest[0].holdsAt(written) {
			l = r.refill(l, out, rest[0].at)
			out -= rest[0].tokens
		}
	}
	return r.refill(l, heldAt(rest, now), now), rest
}

// waitAround is wait in a bucket with holds: as long as they leave no room, no tokens come.
func (r *Rate) waitAround(holds []hold, l Level, need, now int64) int64 {
	if l.Units >= need {
		return 0
	}
	out := heldAt(holds, now)
	for _, h := range holds {
		if !h.holdsAt(now) {
			continue
		}
		if need <= r.room(out) && now+r.wait(l, need, out, now) <= h.at {
			break
		}
		l = r.refill(l, out, h.at)
		out -= h.tokens
	}
	return min(Forever, r.wait(l, need, out, now))
}
