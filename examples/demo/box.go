package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// box is the Redis of the chapters with replicas, which can be turned off: a redis-server of the demo's own, started when it is first
// needed. Where none is installed, a store in this process stands in for it.
type box struct {
	mu      sync.Mutex // guards all below
	plugs   [2]*plug   // of the replicas A and B, which share nothing else
	server  *server    // nil: not started, or stood in for
	begun   bool
	clients []*redis.Client
	power   power
}

// power is what pages know of the box.
type power struct {
	Up   bool   `json:"up"`
	Text string `json:"text"`
}

// plug leads to the store that a replica has now.
type plug struct {
	at  atomic.Pointer[core.Store]
	off atomic.Bool // the store that stands in is turned off
}

var errOff = errors.New("the store that stands in for Redis is turned off")

func (p *plug) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if p.off.Load() {
		return store.Answer{}, errOff
	}
	return (*p.at.Load()).Do(ctx, r)
}

func (p *plug) Reset(ctx context.Context, policy, key string) error {
	if p.off.Load() {
		return errOff
	}
	return (*p.at.Load()).Reset(ctx, policy, key)
}

func newBox() *box {
	b := &box{plugs: [2]*plug{{}, {}}, power: power{Up: true, Text: "a redis-server of the demo’s own"}}
	var memory core.Store = core.NewMemoryStore()
	for _, p := range b.plugs {
		p.at.Store(&memory)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		b.standIn()
	}
	return b
}

func (b *box) standIn() {
	b.begun, b.power.Text = true, "no redis-server is installed: a store in this process stands in for Redis"
}

func (b *box) state() power {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.power
}

// begin starts the server and connects both replicas to it, unless that was done.
func (b *box) begin(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun {
		return
	}
	// Redis keeps its buckets when it is killed: what replicas share is still there when they meet again.
	server, err := newServer(ctx, "--appendonly", "yes", "--appendfsync", "no")
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		b.standIn()
		return
	}
	b.server, b.begun = server, true
	for _, p := range b.plugs {
		client := redis.NewClient(&redis.Options{Addr: server.addr, MaxRetries: -1, DialerRetries: 1})
		b.clients = append(b.clients, client)
		// Replicas are to decide alone when Redis is off, and not when the machine is busy.
		var s core.Store = redisstore.New(client, redisstore.WithTimeout(time.Second))
		p.at.Store(&s)
	}
}

// turn turns Redis on or off.
func (b *box) turn(ctx context.Context, on bool) error {
	b.begin(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if on == b.power.Up {
		return nil
	}
	switch {
	case b.server == nil:
		for _, p := range b.plugs {
			p.off.Store(!on)
		}
	case on:
		if err := b.server.start(ctx); err != nil {
			return err
		}
	default:
		b.server.stop()
	}
	b.power.Up = on
	return nil
}

func (b *box) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.clients {
		_ = c.Close()
	}
	if b.server != nil {
		b.server.remove()
	}
}

// server is a redis-server of the demo's own.
type server struct {
	addr, dir string
	args      []string
	process   *exec.Cmd
}

// newServer starts one on a free port, which someone else may take before it does.
func newServer(ctx context.Context, options ...string) (s *server, err error) {
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s = &server{addr: l.Addr().String()}
		_ = l.Close()
		if s.dir, err = os.MkdirTemp("", "ratelimit-demo"); err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(s.addr)
		s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir}, options...)
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		s.remove()
	}
	return nil, err
}

// start returns when the server takes connections. The server outlives ctx's end.
func (s *server) start(ctx context.Context) error {
	process := exec.CommandContext(context.WithoutCancel(ctx), "redis-server", s.args...)
	out, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	lines, last := bufio.NewScanner(out), ""
	for lines.Scan() {
		if last = lines.Text(); strings.Contains(strings.ToLower(last), "ready to accept connections") {
			s.process = process
			go func() {
				for lines.Scan() { // so that it never waits for a reader
				}
			}()
			return nil
		}
	}
	_ = process.Wait()
	return fmt.Errorf("redis-server ended: %s", last)
}

func (s *server) stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

func (s *server) remove() {
	s.stop()
	_ = os.RemoveAll(s.dir)
}
