package outgoing

import (
	"context"
	"time"
)

// Event is something that happened to a request, for observers.
type Event struct {
	Client string // the name of the client; "" if it has none
	Key    string // of the request
	Kind   Kind
	Wait   time.Duration // how long the request waited, in all (Sent, TurnedAway)
	Until  time.Time     // when a pause ends (Paused)
	Queued int           // by how much the number of waiting requests changes (Queued: 1 or -1)
	Err    error         // why it was not sent (TurnedAway)
}

// Kind is the kind of an event.
type Kind string

const (
	Queued     Kind = "queued"      // a request begins to wait, or ends it
	Sent       Kind = "sent"        // a request is sent
	SentAgain  Kind = "sent-again"  // a request is sent again, besides Sent
	Refused    Kind = "refused"     // the server refused a request: 429, or 503 with Retry-After
	Paused     Kind = "paused"      // a pause of the key begins, or becomes longer
	TurnedAway Kind = "turned-away" // a request is not sent at all
)

// observe calls the observers. No lock is held.
func (g *Gate) observe(ctx context.Context, e Event) {
	for _, f := range g.config.Observers {
		e.Client = g.config.Name
		f(ctx, e)
	}
}

// SentAgain tells observers that a request of a key is about to be sent again.
func (g *Gate) SentAgain(ctx context.Context, key string) {
	g.observe(ctx, Event{Key: key, Kind: SentAgain})
}
