package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// replica is one process of an app, as far as a limiter can tell: a limiter with a store of its own.
type replica struct {
	name    string // "" if there is one
	limiter *core.Limiter
	apps    map[string]http.Handler
}

// next is the replica that serves the next request, as a load balancer would choose it.
func (s *scene) next() *replica { return s.replicas[s.turn.Add(1)%uint64(len(s.replicas))] }

// namedStore is the store of a replica.
type namedStore struct {
	name  string
	store core.Store
}

// build makes the scene of settings, with buckets of a name: a replica for each store.
func (d *demo) build(s settings, name string, stores ...namedStore) (*scene, error) {
	next := &scene{settings: s, policy: name}
	policy := s.policy()
	policy.Name = name
	for _, n := range stores {
		limiter, err := core.NewLimiter(&timed{n.store, &d.latency}, policy, core.WithObserver(note), core.WithObserver(next.observe))
		if err != nil {
			return nil, err
		}
		r := &replica{name: n.name, limiter: limiter, apps: make(map[string]http.Handler)}
		for _, f := range frameworks {
			r.apps[f.name] = f.app(limiter, s)
		}
		next.replicas = append(next.replicas, r)
	}
	return next, nil
}

// observe counts the decisions of this process alone.
func (s *scene) observe(_ context.Context, o core.Observation) {
	if o.Source != core.FromFallback {
		return
	}
	s.alone.Add(1)
	if o.Outcome == core.OutcomeDenied {
		s.aloneDenied.Add(1)
	}
}

// cluster is two replicas of an app on one redis-server of the demo's own, which can be turned off and on while
// requests come. They share nothing but Redis: each has a client, a store and a limiter of its own.
type cluster struct {
	mu      sync.Mutex // guards all below
	server  *server    // nil while there is one replica
	up      bool
	clients []*redis.Client
	list    []namedStore
}

var replicaNames = []string{"A", "B"}

// clusterState is what pages know of it.
type clusterState struct {
	Available bool   `json:"available"`
	Reason    string `json:"reason"`
	On        bool   `json:"on"`    // there are two replicas
	Redis     bool   `json:"redis"` // and their Redis runs
}

const noServer = "needs redis-server on the PATH: the demo turns off only a Redis of its own. Get it by apt install redis-server, or brew install redis"

func (c *cluster) state() clusterState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := clusterState{Available: true, On: c.server != nil, Redis: c.up}
	if _, err := exec.LookPath("redis-server"); err != nil {
		s.Available, s.Reason = false, noServer
	}
	return s
}

// stores are those of the replicas, and where they are. There are none while there is one replica.
func (c *cluster) stores() (list []namedStore, place string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return nil, ""
	}
	return c.list, "buckets of two replicas, in a Redis of the demo’s own"
}

// begin starts the server and connects two replicas to it.
func (c *cluster) begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return nil
	}
	// Redis keeps its buckets when it is killed: what replicas share is still there when they meet again.
	server, err := newServer(ctx, "--appendonly", "yes", "--appendfsync", "no")
	if err != nil {
		return err
	}
	c.server, c.up = server, true
	for range replicaNames {
		c.clients = append(c.clients, redis.NewClient(&redis.Options{Addr: server.addr, MaxRetries: -1, DialerRetries: 1}))
	}
	c.connect()
	return nil
}

// connect makes the replicas' stores. They are patient: they are to decide alone when Redis is off, not when the machine is
// busy. It requires that mu is held.
func (c *cluster) connect() {
	c.list = nil
	for i, name := range replicaNames {
		c.list = append(c.list, namedStore{name, redisstore.New(c.clients[i], redisstore.WithTimeout(time.Second))})
	}
}

// power turns the Redis of the replicas on or off.
func (c *cluster) power(ctx context.Context, on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil || on == c.up {
		return nil
	}
	if !on {
		c.server.stop()
		c.up = false
		return nil
	}
	err := c.server.start(ctx)
	c.up = err == nil
	return err
}

// refill makes the buckets that replicas share full.
func (c *cluster) refill(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil || !c.up {
		return nil
	}
	if err := deleteAll(ctx, c.clients[0], "*"); err != nil {
		return err
	}
	c.connect() // new stores remember no denials
	return nil
}

// stop leaves one replica.
func (c *cluster) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.clients {
		_ = client.Close()
	}
	if c.server != nil {
		c.server.remove()
	}
	c.server, c.up, c.clients, c.list = nil, false, nil, nil
}

// postReplicas takes {"on": …} for one replica or two, and {"redis": …} to turn their Redis on or off.
func (d *demo) postReplicas(w http.ResponseWriter, r *http.Request) {
	var want struct{ On, Redis *bool }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&want); err != nil || want.On == nil && want.Redis == nil {
		writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": `must be {"on": true}, or {"redis": false} and the like`})
		return
	}
	if s := d.cluster.state(); !s.Available {
		writeJSON(w, http.StatusConflict, map[string]string{"error": "Two replicas: " + s.Reason})
		return
	}
	err := d.script.between(func() error {
		ctx := context.WithoutCancel(r.Context()) // the server outlives the request
		if want.On != nil {
			if err := d.replicate(ctx, *want.On); err != nil {
				return err
			}
		}
		if want.Redis != nil {
			return d.cluster.power(ctx, *want.Redis)
		}
		return nil
	})
	d.hub.send("replicas", d.cluster.state())
	switch {
	case errors.Is(err, errRunning):
		writeJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: replicas: %v\n", err)
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "The demo’s own Redis did not start. Try again in a moment."})
	default:
		writeJSON(w, http.StatusOK, d.cluster.state())
	}
}

// replicate has two replicas serve, or one.
func (d *demo) replicate(ctx context.Context, on bool) error {
	if on {
		if err := d.cluster.begin(ctx); err != nil {
			return err
		}
		return d.change(d.scene.Load().settings)
	}
	defer d.cluster.stop() // after the change: requests that are under way still need it
	return d.changeOn(d.scene.Load().settings, d.backend.text, d.sole())
}
