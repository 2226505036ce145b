package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"
)

type customer struct {
	name string
	plan string // a name in Policy.Plans; "" without one
}

// keyHash is how the database knows a key: a copy of it can't be used, and the
// time of a look-up tells nothing of a key.
type keyHash [sha256.Size]byte

var errUnknown = errors.New("no such customer")

// database stands for yours: a table of customers, with an index on the hash of
// the key.
type database struct {
	mu      sync.Mutex
	names   map[keyHash]string
	plans   map[string]string
	queries int
}

func newDatabase() *database {
	return &database{
		names: map[keyHash]string{
			sha256.Sum256([]byte("ann-secret")): "ann",
			sha256.Sum256([]byte("bob-secret")): "bob",
			sha256.Sum256([]byte("cid-secret")): "cid",
		},
		plans: map[string]string{"ann": "free", "bob": "pro", "cid": ""},
	}
}

// find is SELECT name, plan FROM customers WHERE key_hash = ?
func (d *database) find(_ context.Context, key keyHash) (customer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queries++
	name, known := d.names[key]
	if !known {
		return customer{}, errUnknown
	}
	return customer{name, d.plans[name]}, nil
}

func (d *database) setPlan(_ context.Context, name, plan string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.plans[name]; !known {
		return errUnknown
	}
	d.plans[name] = plan
	return nil
}

// customers keeps what the database says for some seconds. It keeps customers
// only, and no made-up keys: a client could fill the memory with these.
type customers struct {
	database *database
	keep     time.Duration

	mu     sync.Mutex
	cached map[keyHash]cached
}

type cached struct {
	customer
	until time.Time
}

func newCustomers(d *database) *customers {
	return &customers{database: d, keep: 5 * time.Second, cached: make(map[keyHash]cached)}
}

func (c *customers) find(ctx context.Context, key keyHash) (customer, error) {
	c.mu.Lock()
	last, known := c.cached[key]
	c.mu.Unlock()
	if known && time.Now().Before(last.until) {
		return last.customer, nil
	}
	found, err := c.database.find(ctx, key) // without the lock: others need not wait for the database
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.cached[key] = cached{found, time.Now().Add(c.keep)}
	case errors.Is(err, errUnknown):
		delete(c.cached, key) // a key that was revoked
	case known: // the database does not answer: the last known plan is better than an error
		return last.customer, nil
	}
	return found, err
}

// setPlan has the new plan hold here at once, and in other replicas after keep.
func (c *customers) setPlan(ctx context.Context, name, plan string) error {
	if err := c.database.setPlan(ctx, name, plan); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cached)
	return nil
}

type customerKey struct{} // of the request's context

func customerOf(r *http.Request) customer { return r.Context().Value(customerKey{}).(customer) }

func (c *customers) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := c.find(r.Context(), sha256.Sum256([]byte(r.Header.Get("X-Api-Key"))))
		switch {
		case errors.Is(err, errUnknown):
			http.Error(w, "unknown API key", http.StatusUnauthorized)
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), customerKey{}, found)))
		}
	})
}
