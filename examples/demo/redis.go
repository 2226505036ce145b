//go:build !js

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// chooseBackend takes the Redis that was asked for, or the one that answers at the usual place, or none.
func chooseBackend(ctx context.Context, host string, port int, asked bool) (*backend, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("-redis-port %d: must be 1 to 65535", port)
	}
	if host == "" {
		return inProcess(), nil
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	client := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: time.Second, MaxRetries: -1, DialerRetries: 1})
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := client.Ping(ctx).Err()
	if err == nil {
		return &backend{"buckets in Redis at " + addr, "redis://" + addr, redisstore.New(client), func() { _ = client.Close() }}, nil
	}
	_ = client.Close()
	switch {
	case !asked:
		return inProcess(), nil
	case strings.HasPrefix(err.Error(), "NOAUTH"), strings.HasPrefix(err.Error(), "WRONGPASS"):
		return nil, fmt.Errorf("the Redis at %s wants a password, which the demo has none of: start one without, or leave out -redis-host and -redis-port to do without Redis", addr)
	}
	return nil, fmt.Errorf("no Redis at %s (%w): start one, or leave out -redis-host and -redis-port to do without", addr, err)
}
