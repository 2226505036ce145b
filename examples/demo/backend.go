package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

// backend is where the buckets live.
type backend struct {
	kind  string // redis or memory
	text  string
	store core.Store
	close func()
}

// chooseBackend takes the Redis that was asked for, or the one that answers at the usual place, or none.
func chooseBackend(ctx context.Context, host string, port int, asked bool) (*backend, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("-redis-port %d: must be 1 to 65535", port)
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	client := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: time.Second, MaxRetries: -1, DialerRetries: 1})
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		if asked {
			return nil, fmt.Errorf("no Redis at %s (%w): start one, or leave out -redis-host and -redis-port to do without", addr, err)
		}
		return &backend{kind: "memory", text: "buckets in this process", store: core.NewMemoryStore(), close: func() {}}, nil
	}
	return &backend{
		kind: "redis", text: "buckets in Redis at " + addr,
		store: core.NewRedisStore(client), close: func() { _ = client.Close() },
	}, nil
}
