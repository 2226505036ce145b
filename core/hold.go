package core

// A hold is tokens that have left a bucket's level and are not used yet: those of a reservation, which are used
// when it is due, and those on lease, which a process may use at any time until the lease ends.
//
// The tokens keep their room in the bucket. While n tokens are held it refills, and takes tokens back, up to
// its Capacity less n. So the level and what is held are together never more than the Capacity: they are
// what a plain bucket would have that is charged when the tokens are used. A plain bucket admits at most
// Limit.MaxIn in any window, and so does this one, whatever is held, given back or lost.
type hold struct {
	tokens int64
	at     int64 // µs since 1970: the tokens are used by then
	ticket int64 // whoever has it may end the hold
}

const (
	// firstLease tells the tickets of leases, which are not smaller, from those of reservations.
	firstLease = 1 << 52
	// atOnce is added to the ticket of a reservation that was due when it was made.
	atOnce = 1 << 51
	// maxHolds bounds the holds on one limit's tokens: some 150 kB of stored state.
	maxHolds = 4096
)

// readHolds reads the records behind a level. It reports whether this library may have written them.
func readHolds(records []record) (holds []hold, ok bool) {
	before, sum := int64(0), 0.0
	for _, s := range records {
		if sum += s.tokens; s.tokens < 1 || s.tokens != float64(int64(s.tokens)) || sum > forever || s.at < before || s.keep == 0 || s.steps != 0 || s.fill != (fill{}) {
			return nil, false
		}
		before = s.at
		holds = append(holds, hold{int64(s.tokens), s.at, s.keep})
	}
	return holds, true
}

// holdsAt reports whether h holds its tokens at an instant. In the microsecond in which a reservation is due they are
// used last of all; but those of one that was due at once are used, though it may be cancelled.
func (h *hold) holdsAt(now int64) bool {
	return h.at > now || h.at == now && (h.ticket < atOnce || h.ticket >= firstLease)
}

// held is how many tokens are held at an instant.
func held(holds []hold, now int64) (tokens int64) {
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

// endHold takes out the hold with a ticket, and returns its tokens: 0 when there is none.
func endHold(holds []hold, ticket int64) (rest []hold, tokens int64) {
	for i, h := range holds {
		if h.ticket == ticket || h.ticket == ticket+atOnce {
			return append(holds[:i:i], holds[i+1:]...), h.tokens
		}
	}
	return holds, 0
}

// lastReservation is when the last of the reservations in holds is due, or 0.
func lastReservation(holds []hold) (due int64) {
	for i := len(holds) - 1; i >= 0; i-- {
		if holds[i].ticket < firstLease {
			return holds[i].at
		}
	}
	return 0
}

// room is how much the level can be while so many tokens are held. It may be below 0, as a level may.
func (r *rate) room(held int64) int64 {
	if held > (r.full+maxDebt)/r.unit {
		return -maxDebt
	}
	return r.full - held*r.unit
}

// refillAround is refill of a bucket with holds, of which those until `written` are counted. Those that ended before
// now are left out of the rest.
func (r *rate) refillAround(holds []hold, l level, written, now int64) (_ level, rest []hold) {
	out := held(holds, written)
	for rest = holds; len(rest) > 0 && rest[0].at < now; rest = rest[1:] {
		if rest[0].holdsAt(written) {
			l = r.refill(l, out, rest[0].at)
			out -= rest[0].tokens
		}
	}
	return r.refill(l, held(rest, now), now), rest
}

// waitAround is wait in a bucket with holds: for as long as they leave no room, nothing comes.
func (r *rate) waitAround(holds []hold, l level, need, now int64) int64 {
	if l.units >= need {
		return 0
	}
	out := held(holds, now)
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
	return min(forever, r.wait(l, need, out, now))
}
