// Package timely finds clients of Redis that return in time, so that a caller may wait for them itself.
package timely

import (
	"github.com/redis/go-redis/v9"
)

// Client is a go-redis client, which returns in time only under conditions: by default it does not stop reading when a
// context ends.
type Client struct {
	always redis.UniversalClient // minds the deadlines of contexts; nil: it doesn't
	clone  *redis.Client         // else a clone that does, on the same connections; nil: there is none
	hooks  func() int            // of the client; the clone has none
}

// Of returns what is known of client.
func Of(client redis.UniversalClient) *Client {
	c := &Client{}
	switch client := client.(type) {
	case *redis.Client:
		if o := client.Options(); o.ContextTimeoutEnabled {
			c.always = client
		} else if hooks := hookCounter(client); hooks != nil && !callsApplication(o) {
			if clone := client.WithTimeout(o.ReadTimeout); clone.Options() != o { // they are the clone's own
				clone.Options().ContextTimeoutEnabled = true
				c.clone, c.hooks = clone, hooks
			}
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

// callsApplication reports whether a client with options o calls functions of the application, which may take any time.
func callsApplication(o *redis.Options) bool {
	return o.OnConnect != nil || o.Limiter != nil ||
		o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil
}

// Get returns a client whose commands end with their contexts' deadlines. It returns nil if there is none at this moment:
// a hook may take any time.
func (c *Client) Get() redis.UniversalClient {
	switch {
	case c.always != nil:
		return c.always
	case c.clone == nil || c.hooks() > 0:
		return nil
	}
	return c.clone
}
