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
	if mindsDeadlines(client) {
		return &Client{always: client}
	}
	one, ok := client.(*redis.Client)
	if !ok || callsApplication(one.Options()) {
		return &Client{}
	}
	hooks, clone := hookCounter(one), one.WithTimeout(one.Options().ReadTimeout)
	if hooks == nil || clone.Options() == one.Options() { // they must be the clone's own
		return &Client{}
	}
	clone.Options().ContextTimeoutEnabled = true
	return &Client{clone: clone, hooks: hooks}
}

// mindsDeadlines reports whether commands of client end with their contexts.
func mindsDeadlines(client redis.UniversalClient) bool {
	switch client := client.(type) {
	case *redis.Client:
		return client.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return client.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return client.Options().ContextTimeoutEnabled
	}
	return false
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
