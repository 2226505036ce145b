package bucket

import "slices"

// Decide decides a request on a bucket, which is changed. It reports whether
// the bucket must be stored; otherwise what was stored before stays. A bucket
// that is used again allocates nothing.
func Decide(now int64, b *Bucket, r *Request, a *Answer) (changed bool) {
	d := decision{now: now, bucket: b, request: r}
	d.look()
	d.take(d.grant())
	d.tell(a)
	return d.store()
}

// DecideJointly decides requests on different buckets: all are granted, or
// none. changed says which buckets must be stored.
func DecideJointly(now int64, buckets []Bucket, requests []*Request, answers []Answer) (changed []bool) {
	decisions, all := make([]decision, len(requests)), true
	for i, r := range requests {
		d := &decisions[i]
		*d = decision{now: now, bucket: &buckets[i], request: r}
		d.look()
		d.granted = d.grant()
		all = all && d.granted > 0
	}
	for i := range decisions {
		d := &decisions[i]
		if !all {
			d.granted = 0
		}
		d.take(d.granted)
		d.tell(&answers[i])
		changed = append(changed, d.store())
	}
	for i := range answers {
		if !all {
			answers[i].Found(requests[i])
		}
	}
	return changed
}

// decision is a request beside the bucket as it is at an instant.
type decision struct {
	now     int64
	bucket  *Bucket
	request *Request
	levels  []level // of each limit
	stored  int     // how many records were stored
	looks   bool    // the request takes nothing: it is denied in debt
	due     int64
	granted int64
	penalty bool // the denial makes a debt
	changed bool // the bucket must be stored
}

// level is what a limit has. Its record is the one in the bucket.
type level struct {
	*Record
	rate   *Rate
	starts []int64
	need   int64 // units
	ends   int64 // tokens of the hold that the request ends, if that is there
	fullIn int64 // in how many µs at most it is full, and its cut paid, after the decision
}

// left is what the limit has left, in units.
func (l *level) left() int64 { return max(-MaxUsed, l.room(l.held())-l.Used) }

// held is how many tokens are held. Those that another definition holds don't
// count if this one holds none.
func (l *level) held() int64 {
	if l.rate.Hold == 0 {
		return 0
	}
	return l.Held
}

// room is what a full bucket has if so many tokens are held: by another
// definition that may be far more than it can have.
func (l *level) room(held int64) int64 {
	if held < 0 { // there are holds that the record does not count
		return l.rate.Full + product(-held, l.Unit)
	}
	return l.rate.Full - product(held, l.Unit)
}

func (l *level) wait(units, now int64) int64 { return l.Record.wait(units, now, l.rate, l.starts) }

// look brings the bucket to now: holds end, and tokens come in.
func (d *decision) look() {
	b, r := d.bucket, d.request
	if r.Set.Holds {
		d.endHolds()
	}
	starts := r.Starts
	if starts == nil && !r.Set.Plain {
		starts = r.Set.Starts(d.now)
	}
	if n := len(r.Set.Rates); cap(b.levels) < n {
		b.levels = make([]level, n)
	}
	d.levels = b.levels[:len(r.Set.Rates)]
	d.looks, d.stored = r.Looks(), len(b.Records)
	b.Records = slices.Grow(b.Records, len(r.Set.Rates)) // so that they stay where they are
	for i := range r.Set.Rates {
		rate := &r.Set.Rates[i]
		l := &d.levels[i]
		l.rate, l.need, l.starts, l.ends = rate, r.need(i), nil, 0
		if starts != nil {
			l.starts = starts[i]
		}
		l.Record = b.place(rate, i)
		if l.Unit != rate.Unit || l.Capacity != rate.Capacity {
			l.convert(rate)
		}
		if rate.Gain == 0 {
			l.Used, l.Cut = 0, 0
		}
		if l.starts != nil && l.At > 0 && l.At < l.starts[0] { // from later on, even fewer of the periods since would count
			d.changed = true
		}
		if l.bring(d.now, rate, l.starts) {
			d.changed = true
		}
		if n := r.EndsOf(i); n > 0 && b.has(d.held(i)) {
			l.ends = n
		}
	}
}

// endHolds takes the holds that have ended off their records.
func (d *decision) endHolds() {
	b := d.bucket
	if back := d.behind(); back > 0 {
		for i := range b.Holds {
			b.Holds[i].End -= back
		}
		for i := range b.Records {
			b.Records[i].At = min(b.Records[i].At, d.now)
		}
		d.changed = true
	}
	for len(b.Holds) > 0 && b.Holds[0].End <= d.now {
		b.release(b.Holds[0])
		b.Holds, d.changed = b.Holds[1:], true
	}
}

// behind returns how far the clock was set back behind the last write, as far as
// the records tell: holds end so much earlier, and keep their remaining time.
func (d *decision) behind() (back int64) {
	for i := range d.bucket.Records {
		back = max(back, d.bucket.Records[i].At-d.now)
	}
	return back
}

// held is the hold that the request ends of its i-th limit.
func (d *decision) held(i int) Hold {
	return Hold{Ticket: d.request.Ticket, Tag: d.request.Set.Rates[i].Tag, Tokens: d.request.EndsOf(i)}
}

// grant returns how many times the request is granted.
func (d *decision) grant() int64 {
	r := d.request
	granted := r.Most()
	switch r.Action {
	case Charge, Cancel:
		return granted
	case Reserve:
		for i := range d.levels {
			d.due = max(d.due, d.delay(&d.levels[i]))
		}
		if d.due > r.When {
			return 0
		}
		return granted
	}
	for i := range d.levels {
		l := &d.levels[i]
		switch left := l.left() - r.floor(i); {
		case r.Action == Extend && l.ends > 0: // its hold is still there
		case left < l.need && (l.need > 0 || d.looks):
			granted = 0
		case l.need > 0 && granted > 1:
			granted = min(granted, left/l.need)
		}
	}
	return granted
}

// delay is in how many µs a limit has what is reserved, by refill alone.
func (d *decision) delay(l *level) int64 {
	if l.need <= 0 {
		return 0
	}
	delay := l.wait(l.need-l.left(), d.now)
	known := d.now + Forever
	if l.starts != nil {
		known = max(d.now, l.starts[len(l.starts)-1])
	}
	if l.need > l.rate.Full || l.Used+l.need > MaxUsed || d.now+delay > known {
		return Forever
	}
	return delay
}

// take takes what is granted, and ends holds.
func (d *decision) take(granted int64) {
	d.granted = granted
	r := d.request
	for i := range d.levels {
		l := &d.levels[i]
		if granted > 0 && l.ends > 0 {
			l.Held, d.changed = max(0, l.Held-l.ends), true
			d.bucket.remove(d.held(i))
		}
		if granted == 0 && d.penalizes(l) {
			steps := l.stepsIn(d.now, d.now+l.rate.Penalty, l.rate, l.starts)
			l.Used = min(MaxUsed, max(l.Used, l.rate.Full+product(steps, l.rate.Gain)))
			d.penalty, d.changed = true, true
		}
		units := l.need * granted
		if r.Action == Cancel { // what was reserved behind it stays
			free := d.now + l.wait(-l.left(), d.now)
			later := product(l.stepsIn(r.When, free, l.rate, l.starts), l.rate.Gain)
			units = -max(0, units-later)
		}
		switch {
		case units > 0 && l.rate.Hold > 0 && r.Action != Charge:
			l.Held, d.changed = l.Held+units/l.Unit, true
			d.bucket.add(Hold{End: d.now + l.rate.Hold, Ticket: r.Ticket, Tag: l.Tag, Tokens: units / l.Unit})
		case units > 0 && l.rate.Gain > 0:
			l.Used, d.changed = min(MaxUsed, l.Used+units), true
		case units < 0 && l.rate.Gain > 0 && l.Used+l.Cut > 0:
			l.give(-units)
			d.changed = true
		}
	}
}

// penalizes reports whether a denial makes a debt of a limit: it lacks tokens
// that it can have, and owes none yet.
func (d *decision) penalizes(l *level) bool {
	r := d.request
	return l.rate.Penalty > 0 && r.Action == Take && !r.Dry && !r.Shadow &&
		l.need <= l.rate.Full && l.left() < l.need && l.left() >= 0
}

// tell fills in the answer.
func (d *decision) tell(a *Answer) {
	a.Now, a.Granted, a.Due, a.Penalty = d.now, d.granted, d.now+d.due, d.penalty
	a.Levels.Grow(len(d.levels))
	for i := range d.levels {
		l := &d.levels[i]
		l.fullIn = d.fullIn(l)
		left := Left{Units: l.left(), Full: l.fullIn}
		if units, asked := d.request.awaited(i, d.granted > 0); asked && l.left() < units {
			left.Ready = d.ready(l, units)
		}
		*a.Levels.At(i) = left
	}
	a.Decided(d.request)
}

// ready is in how many µs a limit has so many units, which is more than it has,
// if nobody ends a hold before its time.
func (d *decision) ready(l *level, units int64) int64 {
	full := l.rate.Full
	switch {
	case units > full:
		return Forever
	case l.held() == 0:
		return l.wait(units-l.left(), d.now)
	}
	held, delay := l.Held, int64(Forever)
	enough := func(end int64) { // with the holds that end until then
		if room := l.room(held); units <= room {
			delay = min(delay, max(end-d.now, l.wait(units-room+l.Used, d.now)))
		}
	}
	enough(d.now)
	for _, h := range d.bucket.Holds {
		if h.End-d.now >= delay {
			break
		}
		if h.Tag == l.Tag {
			held -= h.Tokens
			enough(h.End)
		}
	}
	return delay
}

// fullIn is in how many µs at most a limit is full, and its cut paid.
func (d *decision) fullIn(l *level) int64 {
	in := l.wait(l.Used+l.Cut, d.now)
	if holds := d.bucket.Holds; l.held() > 0 && len(holds) > 0 {
		in = max(in, holds[len(holds)-1].End-d.now)
	}
	return in
}

// mostRecords bounds the records of a key: a service that makes up names of
// limits must not make it grow.
const mostRecords = 256

// store sets when the key expires: an eighth and 3 s later than it matters, so
// that most writes can leave it, and never earlier than before, for the records
// of other limits.
func (d *decision) store() (changed bool) {
	if !d.changed {
		return false
	}
	b, last := d.bucket, int64(0)
	for i := range d.levels {
		l := &d.levels[i]
		last = max(last, l.fullIn)
		l.At = min(l.At, d.now) // behind now, it would look as if the clock was set back
	}
	if len(b.Records) > mostRecords {
		b.Records = b.Records[:mostRecords]
	}
	if b.Full = d.now + last; len(b.Records) > len(d.levels) {
		b.Full = max(b.Full, b.Expires)
	}
	if n := len(b.Holds); n > 0 { // also those that this definition does not count
		b.Full = max(b.Full, b.Holds[n-1].End)
	}
	if d.now+last > b.Expires || len(b.Records) != d.stored {
		b.Expires = max(b.Expires, d.now+last+last/8+3_000_000)
	}
	return true
}
