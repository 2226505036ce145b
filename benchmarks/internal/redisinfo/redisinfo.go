// Package redisinfo reads what a Redis server tells about its own work.
package redisinfo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Server is a Redis server of the benchmarks' own: statistics are reset, databases flushed.
type Server struct {
	Addr   string
	client *redis.Client
}

// Connect returns the server at addr.
func Connect(addr string) *Server {
	return &Server{addr, redis.NewClient(&redis.Options{Addr: addr})}
}

// Work is what the server did for commands since Reset.
type Work struct {
	// Scripts is the time spent in EVAL and EVALSHA, with the commands inside, in µs.
	Scripts float64
	// Commands counts every command executed, inside scripts too; not those of connections and of
	// this package.
	Commands float64
	// CPU is the processor time of the server since it started, network and all, in µs.
	CPU float64
}

// housekeeping are commands that come with connections, scripts' loading and measuring.
var housekeeping = map[string]bool{
	"info": true, "config|resetstat": true, "hello": true, "select": true, "ping": true,
	"script|load": true, "script|exists": true, "command": true,
}

// Reset sets the counters of commands to zero.
func (s *Server) Reset(ctx context.Context) error { return s.client.ConfigResetStat(ctx).Err() }

// Work reads the counters.
func (s *Server) Work(ctx context.Context) (Work, error) {
	text, err := s.client.Info(ctx, "commandstats", "cpu").Result()
	if err != nil {
		return Work{}, err
	}
	var w Work
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case name == "used_cpu_sys" || name == "used_cpu_user":
			w.CPU += number(value) * 1e6
		case isCommand && !housekeeping[command] && !strings.HasPrefix(command, "client|"):
			w.Commands += field(value, "calls")
			if strings.HasPrefix(command, "eval") || strings.HasPrefix(command, "fcall") {
				w.Scripts += field(value, "usec")
			}
		}
	}
	return w, nil
}

// Version is the server's.
func (s *Server) Version(ctx context.Context) (string, error) {
	text, err := s.client.Info(ctx, "server").Result()
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v, nil
		}
	}
	return "unknown", err
}

// Keys counts the keys of a database.
func (s *Server) Keys(ctx context.Context, db int) (int64, error) {
	var n *redis.IntCmd
	err := s.in(ctx, db, func(c *redis.Conn) error { n = c.DBSize(ctx); return n.Err() })
	return n.Val(), err
}

// Memory is what the keys of a database take.
type Memory struct {
	Keys  int64 // how many they are
	Names int64 // length of all their names
	Bytes int64 // MEMORY USAGE of all, less Names
}

// Memory measures each key of a database.
func (s *Server) Memory(ctx context.Context, db int) (m Memory, err error) {
	err = s.in(ctx, db, func(c *redis.Conn) error {
		names, err := c.Keys(ctx, "*").Result()
		for _, name := range names {
			usage, err := c.MemoryUsage(ctx, name, 0).Result()
			if err != nil {
				return fmt.Errorf("MEMORY USAGE %s: %w", name, err)
			}
			m.Keys++
			m.Names += int64(len(name))
			m.Bytes += usage - int64(len(name))
		}
		return err
	})
	return m, err
}

// Flush forgets all keys of all databases.
func (s *Server) Flush(ctx context.Context) error { return s.client.FlushAll(ctx).Err() }

// in runs f on a connection that has chosen a database.
func (s *Server) in(ctx context.Context, db int, f func(*redis.Conn) error) error {
	c := s.client.Conn()
	defer func() { _ = c.Close() }()
	if err := c.Select(ctx, db).Err(); err != nil {
		return err
	}
	defer c.Select(ctx, 0)
	return f(c)
}

// field is a field of a line such as "calls=1,usec=2".
func field(line, name string) float64 {
	for pair := range strings.SplitSeq(line, ",") {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			return number(v)
		}
	}
	return 0
}

func number(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}
