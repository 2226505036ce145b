package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// recovery is how long the scenario waits for Redis to decide again. It takes about half a second.
const recovery = 30 * time.Second

func outage(ctx context.Context, r *rehearsal) (verdict, error) {
	server, err := r.moveToOwnRedis(ctx)
	if err != nil {
		return verdict{}, err
	}
	if err := r.set(continuous(5, 4)); err != nil {
		return verdict{}, err
	}
	asked, answered := 0, 0
	sources := map[string]int{}
	ask := func() string {
		got := r.ask(ctx, "ann")
		if asked++; got.passed() || got.denied() {
			answered++
		}
		sources[got.source]++
		return got.source
	}
	during := func(d time.Duration) {
		began := time.Now()
		steadily(ctx, 80*time.Millisecond, func(int) bool { ask(); return time.Since(began) < d })
	}
	r.say("12 requests a second, on a Redis of the demo’s own")
	during(1500 * time.Millisecond)
	onRedis := sources["store"]
	server.stop()
	r.say("Redis is stopped: this process limits alone")
	alone := &r.scenes[0].aloneDenied
	began := time.Now()
	steadily(ctx, 80*time.Millisecond, func(int) bool { // until it has denied: its own bucket begins full
		ask()
		took := time.Since(began)
		return took < 2500*time.Millisecond || alone.Load() == 0 && took < recovery
	})
	passed, denied := sources["fallback"]-int(alone.Load()), alone.Load()
	if err := server.start(ctx); err != nil {
		return verdict{}, err
	}
	r.say("Redis is back")
	back, took := time.Now(), time.Duration(0)
	steadily(ctx, 80*time.Millisecond, func(int) bool {
		took = time.Since(back)
		return ask() != "store" && took < recovery
	})
	r.say("Redis decides again")
	during(time.Second)
	text := fmt.Sprintf("All %d requests were answered. While Redis was away this process allowed %d and denied %d. Redis decided again %s.",
		asked, passed, denied, soon(took))
	switch {
	case answered < asked:
		return verdict{Outcome: unexpected, Text: fmt.Sprintf("%d of %d requests were not answered.", asked-answered, asked)}, nil
	case onRedis == 0:
		return slow("Redis was too slow to decide even before it was stopped."), nil
	case took >= recovery:
		return verdict{Outcome: unexpected, Text: fmt.Sprintf("%.0f s after Redis was back this process still decided alone.", took.Seconds())}, nil
	case passed > 0 && denied > 0:
		return verdict{Outcome: expected, Text: text}, nil
	}
	return verdict{Outcome: unexpected, Text: text}, nil
}

// moveToOwnRedis has the rehearsal's buckets in a Redis of its own, which ends with it.
func (r *rehearsal) moveToOwnRedis(ctx context.Context) (*server, error) {
	server, err := newServer(ctx)
	if err != nil {
		return nil, err
	}
	r.undo = append(r.undo, server.remove)
	client := redis.NewClient(&redis.Options{Addr: server.addr, MaxRetries: -1, DialerRetries: 1})
	r.undo = append(r.undo, func() { _ = client.Close() })
	r.store, r.place = redisstore.New(client), "buckets in a Redis of the scenario’s own"
	return server, nil
}

// soon is how long after Redis was back.
func soon(d time.Duration) string {
	if d < 100*time.Millisecond {
		return "as soon as it was back"
	}
	return fmt.Sprintf("%.1f s after it was back", d.Seconds())
}

// server is a redis-server of the demo's own.
type server struct {
	addr, port, dir string
	options         []string
	process         *exec.Cmd
}

// newServer starts one on a free port, which someone else may take before it does.
func newServer(ctx context.Context, options ...string) (s *server, err error) {
	for range 5 {
		if s, err = prepareServer(); err != nil {
			return nil, err
		}
		s.options = options
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		s.remove()
	}
	return nil, err
}

func prepareServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_ = l.Close()
	dir, err := os.MkdirTemp("", "ratelimit-demo")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	return &server{addr: addr, port: port, dir: dir}, nil
}

// start returns when the server takes connections.
func (s *server) start(ctx context.Context) error {
	process := exec.CommandContext(ctx, "redis-server", append([]string{"--port", s.port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir}, s.options...)...)
	out, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("redis-server: %w", err)
	}
	s.process = process
	lines, last := bufio.NewScanner(out), ""
	for lines.Scan() {
		last = lines.Text()
		if strings.Contains(strings.ToLower(last), "ready to accept connections") {
			go func() {
				for lines.Scan() { // so that it never waits for a reader
				}
			}()
			return nil
		}
	}
	_ = s.process.Wait()
	s.process = nil
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
