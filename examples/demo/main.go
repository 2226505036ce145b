//go:build !js

// Demo explains token buckets in a browser, with real decisions: gin, echo, chi, fiber and net/http serve one endpoint in one
// process, and one bucket limits them all. No Redis is needed. The first build takes half a minute, and -v shows its packages:
//
//	go run -v ./examples/demo                                        # then open http://localhost:8080
//	go run -v ./examples/demo -addr localhost:8081 -redis-port 6379  # another one, on the same buckets
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9/logging"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	gin.SetMode(gin.ReleaseMode) // the terminal is for the demo's own lines: no list of routes,
	logging.Disable()            // and nothing about a Redis that is away, which the page tells
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a mistake is one line, which main prints
	addr := flags.String("addr", "localhost:8080", "address to listen on; the page opens by this host, localhost or an IP address")
	host := flags.String("redis-host", "localhost", "host of a Redis server; empty does without Redis")
	port := flags.Int("redis-port", 6379, "port of a Redis server; without these two flags the demo does without Redis if none is there")
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
	asked := false
	flags.Visit(func(f *flag.Flag) { asked = asked || f.Name == "redis-host" || f.Name == "redis-port" })

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	backend, err := chooseBackend(ctx, *host, *port, asked)
	if err != nil {
		return err
	}
	defer backend.close()
	name, _, err := net.SplitHostPort(*addr)
	if err != nil {
		return fmt.Errorf("-addr %s: must be a host and a port, such as localhost:8081, or :8081 for all addresses of this machine", *addr)
	}
	listener, err := net.Listen("tcp", *addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken: choose another address, such as -addr localhost:8081", *addr)
	}
	if err != nil {
		return fmt.Errorf("can't listen on %s: %w", *addr, err)
	}
	d, err := newServer(backend, "http://"+reachable(listener.Addr()))
	if err != nil {
		return err
	}
	d.host = name
	go d.tick(ctx)
	server := &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("demo: %s, %s\n", d.url, backend.text)
	fmt.Printf("Open %s in a browser. Try first: press \"Send 15 at once\", and see ten allowed and five denied.\nStop the demo with Ctrl+C.\n", d.url)
	err = server.Serve(listener)
	d.close()
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// reachable is addr as this process can call itself.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return addr.String()
}
