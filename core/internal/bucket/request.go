package bucket

// Action is what a [Request] does to a bucket.
type Action uint8

const (
	// Take takes the tokens of every limit, or of none, up to Times times.
	Take Action = iota
	// Charge takes them without asking. A negative number gives back, at most
	// what fills the bucket.
	Charge
	// Reserve takes them for when all limits have them, if that is within When
	// µs: until then the bucket is in debt. It takes nothing of limits that hold.
	Reserve
	// Cancel gives back what was reserved for the instant When, but for what
	// was reserved behind it.
	Cancel
	// Extend is Take of holds that it ends. Those that are still there get
	// another end without asking.
	Extend
)

// Request is what to do with the bucket of a key. Limits with a Hold hold what
// is taken of them until that is over, or until a later request of the same
// ticket ends it.
type Request struct {
	Set    *LimitSet
	Action Action
	Dry    bool      // Take: take nothing, and find out whether there are tokens
	N      int64     // tokens, of each limit that counts requests
	Each   *[]int64  // the tokens of each limit, in place of N
	Times  int64     // Take: how often at most; 0: once
	Floors *[]int64  // Take: of each limit the tokens that must be left after it; nil: none
	Shadow bool      // Take: a denial makes no debt
	When   int64     // Reserve: a delay in µs; Cancel: an instant in µs since 1970
	Ticket uint64    // of the holds that begin and end
	Ends   *[]int64  // of each limit the tokens of the hold that ends if the request is granted; 0: none does
	Starts [][]int64 // of tests; nil: those of the set's calendars
}

// Of is how many tokens r takes from the i-th limit.
func (r *Request) Of(i int) int64 { return r.Set.CostOf(i, r.N, r.Each) }

// need is Of in units, bounded as all numbers are.
func (r *Request) need(i int) int64 {
	n, rate := r.Of(i), &r.Set.Rates[i]
	if n < 0 || n > rate.Capacity { // else it is at most a full bucket
		n = max(-MaxUsed/rate.Unit, min(MaxUsed/rate.Unit, n))
	}
	return n * rate.Unit
}

// Amount is Of, at most what can be used at once.
func (r *Request) Amount(i int) int64 { return r.need(i) / r.Set.Rates[i].Unit }

// EndsOf is how many tokens the hold of the i-th limit has that r ends.
func (r *Request) EndsOf(i int) int64 {
	if r.Ends == nil {
		return 0
	}
	return (*r.Ends)[i]
}

// Most is how often r is granted at most.
func (r *Request) Most() int64 {
	switch {
	case r.Dry:
		return 0
	case r.Times == 0:
		return 1
	}
	return r.Times
}

// Moves reports whether r asks for tokens, or gives some back.
func (r *Request) Moves() bool {
	for i := range r.Set.Rates {
		if r.Of(i) != 0 {
			return true
		}
	}
	return false
}

// Looks reports whether r takes nothing. It is granted unless a limit is in
// debt.
func (r *Request) Looks() bool { return r.Action == Take && !r.Moves() }

// awaited is for how many units of the i-th limit an answer says when it has
// them: a token, if r was granted, or what was denied. asked is false if r asks
// for nothing of the limit.
func (r *Request) awaited(i int, granted bool) (units int64, asked bool) {
	if granted {
		return r.Set.Rates[i].Unit, true
	}
	units = r.need(i)
	return units + r.floor(i), units > 0 || r.Looks()
}

// floor is how many units of the i-th limit r must leave, if it takes some.
func (r *Request) floor(i int) int64 {
	if r.Floors == nil || r.Of(i) <= 0 {
		return 0
	}
	rate := &r.Set.Rates[i]
	return min(MaxUsed/rate.Unit, max(0, (*r.Floors)[i])) * rate.Unit
}

// Floor is how many tokens of the i-th limit r must leave.
func (r *Request) Floor(i int) int64 { return r.floor(i) / r.Set.Rates[i].Unit }

// Takes reports whether r may be denied.
func (r *Request) Takes() bool { return r.Action == Take || r.Action == Reserve }

// Plain reports whether r only takes or charges tokens of limits that refill by
// the clock, hold nothing and have no penalty, whatever it leaves.
func (r *Request) Plain() bool {
	return r.Action <= Charge && r.Ends == nil && r.Floors == nil && r.Set.Plain
}

// Holds reports whether r may begin a hold.
func (r *Request) Holds() bool {
	if !r.Set.Holds || r.Dry || r.Action == Charge || r.Action == Cancel {
		return false
	}
	for i := range r.Set.Rates {
		if r.Set.Rates[i].Hold > 0 && r.Of(i) > 0 {
			return true
		}
	}
	return false
}

// Gives reports whether r may return tokens to the bucket.
func (r *Request) Gives() bool { return r.Action == Charge || r.Action == Cancel }

// Charges reports whether r takes tokens without asking for them: a debit.
func (r *Request) Charges() bool {
	if r.Action == Charge {
		for i := range r.Set.Rates {
			if r.Of(i) > 0 {
				return true
			}
		}
	}
	return false
}

// Undo returns the request that gives back what r took. a is its answer.
func (r *Request) Undo(a *Answer) Request {
	if r.Action == Reserve {
		return Request{Set: r.Set, Action: Cancel, N: r.N, Each: r.Each, When: a.Due}
	}
	each, ends := make([]int64, len(r.Set.Rates)), r.held()
	for i := range each {
		if ends[i] == 0 {
			each[i] = -r.Of(i) * a.Granted
		}
		ends[i] *= a.Granted
	}
	return Request{Set: r.Set, Action: Charge, Each: &each, Ticket: r.Ticket, Ends: &ends}
}

// held returns of each limit the tokens that r holds if it is granted once.
func (r *Request) held() []int64 {
	held := make([]int64, len(r.Set.Rates))
	for i := range held {
		if r.Set.Rates[i].Hold > 0 {
			held[i] = max(0, r.Of(i))
		}
	}
	return held
}

// Ending returns the request that ends the holds that r may have begun, if it
// was granted once, and gives back nothing else.
func (r *Request) Ending() Request {
	each, ends := make([]int64, len(r.Set.Rates)), r.held()
	return Request{Set: r.Set, Action: Charge, Each: &each, Ticket: r.Ticket, Ends: &ends}
}

// Look returns a request for what r's limits have left, which takes nothing.
func (r *Request) Look() Request { return Request{Set: r.Set} }
