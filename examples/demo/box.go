//go:build !js

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// box is the Redis of the chapters with replicas, which can be turned off: a redis-server of the demo's own, started when it is first
// needed. Where none is installed, a store in this process stands in for it.
type box struct {
	mu      sync.Mutex // guards all below
	plugs   [2]*plug   // of the replicas A and B, which share nothing else
	standIn *standIn
	dir     string // of the server; "": not started, or stood in for
	clients [2]*redis.Client
	process *exec.Cmd
	orders  io.Writer // to the process
	power   power
}

func newBox() *box {
	b := &box{plugs: [2]*plug{{}, {}}, standIn: newStandIn(), power: power{Up: true, Text: "a redis-server of the demo’s own"}}
	for i, p := range b.plugs {
		p.into(b.standIn.of(i))
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		b.power.Text = "no redis-server is installed: a store in this process stands in for Redis"
	}
	return b
}

func (b *box) state() power {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.power
}

// turn turns Redis on or off. The first time it starts the server.
func (b *box) turn(ctx context.Context, on bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := exec.LookPath("redis-server"); err == nil && b.dir == "" {
		if err := b.begin(ctx); err != nil {
			b.power.Up = false
			return err
		}
	}
	switch {
	case on == b.power.Up && (!on || b.dir == "" || b.clients[0].Ping(ctx).Err() == nil):
		return nil
	case b.dir == "":
		b.standIn.turn(on)
	case on:
		if b.power.Up { // it has died, or hangs
			b.kill()
		}
		if err := b.start(ctx); err != nil {
			return err
		}
	default:
		b.kill()
	}
	b.power.Up = on
	return nil
}

// begin starts the server, and has both replicas use it. It listens on a socket in a directory of its own.
func (b *box) begin(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "ratelimit-demo"); err != nil {
		return err
	}
	for i, p := range b.plugs {
		b.clients[i] = redis.NewClient(&redis.Options{Network: "unix", Addr: filepath.Join(b.dir, "redis"), MaxRetries: -1, DialerRetries: 1})
		// Replicas are to decide alone when Redis is off, and not when the machine is busy.
		p.into(redisstore.New(b.clients[i], redisstore.WithTimeout(time.Second)))
	}
	return b.start(ctx)
}

// guarded is a shell that kills the server when it is told to, or when the demo has ended, however that was; then its files go too.
const guarded = `"$@" >/dev/null 2>&1 & read -r word; kill -9 $!; wait $!; [ "$word" ] || rm -rf "$0"`

// start returns when the server answers. It keeps its buckets when it is killed: what replicas share is still there when they meet
// again.
func (b *box) start(ctx context.Context) (err error) {
	b.process = exec.Command("sh", "-c", guarded, b.dir, "redis-server", "--port", "0", "--unixsocket", filepath.Join(b.dir, "redis"), "--dir", b.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "no")
	if b.orders, err = b.process.StdinPipe(); err != nil {
		return err
	}
	if err := b.process.Start(); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	for range 200 {
		if err = b.clients[0].Ping(ctx).Err(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.kill()
	return fmt.Errorf("redis-server does not answer: %w", err)
}

func (b *box) kill() {
	_, _ = fmt.Fprintln(b.orders, "off")
	_ = b.process.Wait()
}

func (b *box) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" {
		return
	}
	if b.power.Up {
		b.kill()
	}
	for _, c := range b.clients {
		_ = c.Close()
	}
	_ = os.RemoveAll(b.dir)
}
