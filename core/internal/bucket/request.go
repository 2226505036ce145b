package bucket

// Action is what a [Request] does to a bucket.
type Action uint8

const (
	// Take takes N tokens from every limit, or nothing from any.
	Take Action = iota
	// Refund puts N tokens back into every limit, as far as there is room. A
	// negative N is a debit: it takes tokens whether or not they are there, as
	// far as a debt may go.
	Refund
	// End ends holds and does nothing else.
	End
	// Reserve takes N tokens that the bucket will have within More µs, and
	// holds them until it has. A later reservation is never due before an
	// earlier one.
	Reserve
	// Await is Reserve, but holds nothing if the bucket has the tokens now.
	Await
	// Lease takes N tokens and up to More beyond them, at most half of what is
	// left. It holds the latter for LeaseLife.
	Lease
	// AtMost takes N tokens and up to More beyond them, as many as are there.
	AtMost
	// Acquire is Take, but limits with a Hold hold the tokens until it is over,
	// or an [Ending] ends them. Then the tokens come back. If it ends holds of
	// its own ticket, these limits hold their tokens from now on, and nothing
	// is taken again. That is denied if a hold has ended before, and its tokens
	// are no longer there; the other limits hold their tokens all the same.
	Acquire
)

// LeaseLife is how long, in µs, leased tokens may be used.
const LeaseLife = 2_000_000

// Ending ends a hold early, as part of a [Request]. Unused tokens come back.
type Ending struct {
	Ticket int64 // of the hold; 0: no hold ends
	At     int64 // when it ends by itself, in µs since 1970; of a hold of Acquire, when it began; 0: not known
	Back   int64 // how many of its tokens were not used
}

// Request is what to do with the bucket of a key.
type Request struct {
	Set     *LimitSet
	Action  Action
	Dry     bool      // Take: take nothing, only find out whether there are tokens
	Probe   bool      // Dry as the first step of a decision of several keys: if it takes nothing, a changed definition is stored as without Dry
	N       int64     // tokens, of each limit that counts requests
	Each    *[]int64  // Take, Refund: the tokens of each limit, in place of N
	More    int64     // Reserve, Await: how far ahead tokens may be promised, in µs; Lease, AtMost: tokens beyond N
	Ticket  int64     // Reserve, Await, Lease, Acquire, AtMost: of the hold that may begin
	Ends    Ending    // a hold that ends before the action
	EndsToo *[]Ending // End: more holds that end
}

// Of is how many tokens r takes from the i-th limit, or returns to it.
func (r *Request) Of(i int) int64 { return r.Set.CostOf(i, r.N, r.Each) }

// Moves reports whether r, if it is allowed, changes any level.
func (r *Request) Moves() bool {
	for i := range r.Set.Rates {
		if r.Of(i) != 0 {
			return true
		}
	}
	return false
}

// Charges reports whether r takes tokens without asking for them: a debit.
func (r *Request) Charges() bool {
	if r.Action == Refund {
		for i := range r.Set.Rates {
			if r.Of(i) < 0 {
				return true
			}
		}
	}
	return false
}

// promises reports whether r may take tokens before the bucket has them.
func (r *Request) promises() bool { return r.Action == Reserve || r.Action == Await }

// Takes reports whether r asks for tokens, so it may be denied.
func (r *Request) Takes() bool { return r.Action != Refund && r.Action != End && !r.extends() }

// extends reports whether r goes on with a hold.
func (r *Request) extends() bool { return r.Action == Acquire && r.Ends.Ticket == r.Ticket }

// holds reports whether r, if it is allowed, holds the tokens that it takes
// from the i-th limit.
func (r *Request) holds(i int) bool {
	return r.Set.Rates[i].Hold > 0 && (r.Action == Acquire || r.Action == AtMost) && r.Of(i) > 0
}

// Holds reports whether r may begin a hold, so it can be undone for certain.
func (r *Request) Holds() bool {
	return r.Ticket != 0 && !r.extends() && r.Action != Lease && r.Moves()
}

// Undo returns the request that gives back what r, which holds tokens, took. a
// is its answer.
func (r *Request) Undo(a *Answer) Request {
	back := Request{Set: r.Set, Action: End, Ends: Ending{r.Ticket, a.Due, r.N}}
	if r.promises() {
		return back
	}
	each := make([]int64, len(r.Set.Rates))
	for i := range each {
		if n := r.Of(i); n > 0 && !r.holds(i) {
			each[i] = n + a.Lent
		}
	}
	back.Action, back.Each, back.Ends = Refund, &each, Ending{r.Ticket, a.Now, MaxHeld}
	return back
}

// Gives reports whether r may return tokens to the bucket. It does not tell a
// debit, which returns none, from a refund.
func (r *Request) Gives() bool { return r.Action == Refund || r.Ends.Back > 0 }
