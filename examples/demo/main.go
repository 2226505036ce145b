//go:build !js

// Demo explains token buckets in a browser, with real decisions of the
// library. No Redis is needed:
//
//	go run ./examples/demo                        # then open http://localhost:8080
//	go run ./examples/demo -redis localhost:6379  # with the buckets in Redis
//	curl -i localhost:8080/limited                # asks the limiter of the first picture
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a mistake is one line, which main prints
	addr := flags.String("addr", "localhost:8080", "address to listen on")
	redis := flags.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.Usage()
		return nil
	} else if err != nil {
		return fmt.Errorf("%w: -h lists the flags", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: flags are written as -addr localhost:8081", flags.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	at := inProcess("process")
	if *redis != "" {
		logging.Disable() // of connections to a Redis that is away: the page tells it
		store, err := redisstore.Open("redis://" + *redis)
		if err != nil {
			return fmt.Errorf("-redis %s: %w", *redis, err)
		}
		defer func() { _ = store.Close() }()
		if err := store.Ping(ctx); err != nil {
			return fmt.Errorf("no Redis at %s (%w): start one, or leave out -redis to do without", *redis, err)
		}
		at = place{"buckets in Redis at " + *redis, "the one at " + *redis, "redis://" + *redis, store}
	}
	d, err := newDemo(at)
	if err != nil {
		return err
	}
	handler, err := d.handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken: choose another address, such as -addr localhost:8081", *addr)
	}
	if err != nil {
		return fmt.Errorf("can't listen on %s: %w", *addr, err)
	}
	go d.tick(ctx)
	defer d.close()
	server := &http.Server{
		Handler:           http.MaxBytesHandler(handler, 64<<10),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	url := "http://" + reachable(listener.Addr())
	fmt.Printf("demo: %s, %s\nOpen %s in a browser. Stop the demo with Ctrl+C.\n", url, at.buckets, url)
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// reachable is addr as a browser on this machine can open it.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return addr.String()
}

//go:embed page
var files embed.FS

// handler serves the page, and what it asks.
func (d *demo) handler() (http.Handler, error) {
	page, err := fs.Sub(files, "page")
	if err != nil {
		return nil, err
	}
	serve := http.FileServerFS(page)
	d.mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		w.Header().Set("Cache-Control", "no-cache")
		serve.ServeHTTP(w, r)
	})
	d.mux.HandleFunc("GET /events", d.events)
	return http.NewCrossOriginProtection().Handler(d.mux), nil // other sites' pages change nothing
}

// events streams to one page.
func (d *demo) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	stream := http.NewResponseController(w)
	m, page := d.greet(r.Context())
	defer d.leave(page)
	for open := true; open; {
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", m.name, m.data); err != nil || stream.Flush() != nil {
			return
		}
		select {
		case m, open = <-page:
		case <-r.Context().Done():
			return
		}
	}
}
