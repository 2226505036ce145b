// Package timely finds clients of Redis that return in time, so that a caller may wait for them itself.
package timely

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is a go-redis client, which returns in time only under conditions: by default it does not stop reading when a
// context ends.
type Client struct {
	always  redis.UniversalClient // minds the deadlines of contexts; nil: it doesn't
	bounded *redis.Client         // else has timeouts, on the client's connections; nil: nothing bounds it
	hooks   func() int            // of the client, which bounded lacks
}

// Of returns what is known of client, for commands that may take as long as timeout.
func Of(client redis.UniversalClient, timeout time.Duration) *Client {
	c := &Client{}
	switch client := client.(type) {
	case *redis.Client:
		if client.Options().ContextTimeoutEnabled {
			c.always = client
		} else if hooks := hookCounter(client); hooks != nil {
			c.bounded, c.hooks = client.WithTimeout(timeout), hooks
		}
	case *redis.ClusterClient:
		if client.Options().ContextTimeoutEnabled {
			c.always = client
		}
	case *redis.Ring:
		if client.Options().ContextTimeoutEnabled {
			c.always = client
		}
	}
	return c
}

// Get returns a client whose commands end with their contexts' deadlines, or after the timeout. It returns nil if there
// is none at this moment: a hook may take any time, and so may setting up a connection.
func (c *Client) Get() redis.UniversalClient {
	switch {
	case c.always != nil:
		return c.always
	case c.bounded == nil || c.hooks() > 0 || c.bounded.PoolStats().IdleConns == 0:
		return nil
	}
	return c.bounded
}
