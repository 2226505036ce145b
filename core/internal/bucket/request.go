package bucket

// Action is what a [Request] does to a bucket.
type Action uint8

const (
	// Take takes N tokens from every limit, or nothing from any.
	Take Action = iota
	// Refund puts N tokens back into every limit, as far as there is room.
	Refund
	// End ends a hold and does nothing else.
	End
	// Reserve takes N tokens that are there within More µs, and holds them until they are. A later reservation is
	// never due before an earlier one.
	Reserve
	// Await is Reserve, but holds nothing if the tokens are there at once.
	Await
	// Lease takes N tokens and up to More beyond them. It holds the latter for LeaseLife.
	Lease
)

// LeaseLife is how long, in µs, tokens on lease may be used.
const LeaseLife = 2_000_000

// Ending ends a hold before its time, as part of a [Request]. The tokens that nobody used come back.
type Ending struct {
	Ticket int64 // of the hold; 0: no hold ends
	Back   int64 // how many of its tokens come back
}

// Request is one question to the bucket of a key.
type Request struct {
	Plan   *Plan
	Action Action
	N      int64  // tokens
	More   int64  // Reserve, Await: how far ahead tokens may be promised, in µs; Lease: tokens beyond N
	Ticket int64  // Reserve, Await, Lease: of the hold that may begin
	Ends   Ending // a hold that ends before the action
}

// promises reports whether r may be granted tokens that are not there yet.
func (r *Request) promises() bool { return r.Action == Reserve || r.Action == Await }

// Takes reports whether r may be denied.
func (r *Request) Takes() bool { return r.Action != Refund && r.Action != End }

// Gives reports whether r returns tokens to the bucket.
func (r *Request) Gives() bool { return r.Action == Refund || r.Ends.Back > 0 }
