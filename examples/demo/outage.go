package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

func outage(ctx context.Context, r *rehearsal) verdict {
	server, err := newServer()
	if err != nil {
		return failed(err)
	}
	r.undo = append(r.undo, server.remove)
	if err := server.start(ctx); err != nil {
		return failed(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.addr, MaxRetries: -1})
	r.undo = append(r.undo, func() { _ = client.Close() })
	r.store = core.NewRedisStore(client)
	if err := r.set(ctx, continuous(100, 100)); err != nil {
		return failed(err)
	}
	asked, answered := 0, 0
	sources := map[string]int{}
	ask := func() string {
		got := r.ask(ctx, "ann")
		if asked++; got.status == http.StatusOK || got.status == http.StatusTooManyRequests {
			answered++
		}
		sources[got.source]++
		return got.source
	}
	during := func(d time.Duration) {
		began := time.Now()
		steadily(ctx, 40*time.Millisecond, func(int) bool { ask(); return time.Since(began) < d })
	}
	r.say("on a Redis of the demo's own")
	during(time.Second)
	onRedis := sources["store"]
	server.stop()
	r.say("Redis is stopped")
	during(1500 * time.Millisecond)
	if err := server.start(ctx); err != nil {
		return failed(err)
	}
	r.say("Redis is back")
	back, took := time.Now(), time.Duration(0)
	steadily(ctx, 40*time.Millisecond, func(int) bool {
		took = time.Since(back)
		return ask() != "store" && took < 10*time.Second
	})
	recovered := took < 10*time.Second
	return verdict{
		recovered && answered == asked && onRedis > 0 && sources["fallback"] > 0,
		fmt.Sprintf("%d of %d requests were answered, %d of them by this process alone; %.1f s after Redis was back it decided again.",
			answered, asked, sources["fallback"], took.Seconds()),
	}
}

// server is a redis-server of the demo's own.
type server struct {
	addr, port, dir string
	process         *exec.Cmd
}

func newServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
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
	process := exec.CommandContext(ctx, "redis-server", "--port", s.port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir)
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
