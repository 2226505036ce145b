// Package conn connects to Redis by the flags of redis-cli. No password stands
// in what it returns.
package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// Link is a connection.
type Link struct {
	Client redis.UniversalClient
	Store  *redisstore.Store
	Where  string // for messages
	Silent error  // of a master that Sentinel names and that does not answer, if Flags.Any is set

	flags   *Flags
	options *redis.Options
	extra   []redisstore.Option
	tls     bool
	nodes   *nodes
}

// Close closes the connection.
func (l *Link) Close() {
	_ = l.Client.Close()
	l.nodes.close()
}

// Open returns a connection to a server that answers. A store's options come
// from the flags and extra.
func (f *Flags) Open(ctx context.Context, env func(string) string, extra ...redisstore.Option) (*Link, error) {
	o, addrs, err := f.options(env)
	switch {
	case cli.IsMisuse(err):
		return nil, cli.Misuse("%s", f.spell(err.Error()))
	case err != nil:
		return nil, err
	}
	l := &Link{flags: f, options: o, extra: extra, tls: f.usesTLS()}
	if err := l.connect(ctx, addrs); err != nil {
		return nil, err
	}
	l.Store = l.StoreAt(f.Prefix)
	if err := l.reach(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// StoreAt returns a store with another prefix.
func (l *Link) StoreAt(prefix string) *redisstore.Store {
	options := []redisstore.Option{
		redisstore.WithPrefix(prefix), redisstore.WithTimeout(l.flags.Timeout), redisstore.WithDenyCache(0), core.WithLogger(slog.New(slog.DiscardHandler)),
	}
	return redisstore.New(l.Client, append(options, l.extra...)...)
}

// reach finds out whether the server answers, and whether it is what the flags
// say. Of a Cluster any node will do.
func (l *Link) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.flags.dialTimeout())
	defer cancel()
	if c, ok := l.Client.(*redis.ClusterClient); ok {
		err := c.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
		if errors.As(err, new(silence)) {
			return fmt.Errorf("%s: %w\n  %s", l.Where, err, l.flags.spell("Name another node of the Cluster"+l.flags.otherNodes()+". A slow way needs a longer -timeout."+l.perhapsPlain(true)))
		}
		return l.Explain(err)
	}
	if err := l.Client.Ping(ctx).Err(); err != nil {
		if isTimeout(err) {
			err = silence{why: fmt.Sprintf("no answer within %v", l.flags.dialTimeout())}
		}
		if l.flags.Any && l.flags.sentinels != "" && !isReply(err) {
			l.Silent = err
			return nil
		}
		return l.Explain(err)
	}
	// Without -c, a node of a Cluster would answer for its own keys alone.
	info, err := l.Client.Info(ctx).Result()
	switch {
	case err != nil: // this user may not ask
	case strings.Contains(info, "redis_mode:cluster"):
		return cli.Misuse("%s is a node of a Cluster: add -c, so that all of its masters are asked", l.Where)
	case strings.Contains(info, "redis_mode:sentinel"):
		return cli.Misuse("%s is a Sentinel: name it by -sentinel, and its master by -master", l.Where)
	case strings.Contains(info, "role:slave") && !l.flags.Any:
		return cli.Misuse("%s is a replica, which can lack what the master has, and takes no changes: name its master, %s:%s", l.Where, field(info, "master_host"), field(info, "master_port"))
	}
	return nil
}

// Masters is how many servers have keys.
func (l *Link) Masters(ctx context.Context) (n int) {
	c, ok := l.Client.(*redis.ClusterClient)
	if !ok {
		return 1
	}
	var masters atomic.Int64
	_ = c.ForEachMaster(ctx, func(context.Context, *redis.Client) error {
		masters.Add(1)
		return nil
	})
	return int(masters.Load())
}

// field returns a field of the reply of INFO.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

// connect makes the client, and says where it connects to.
func (l *Link) connect(ctx context.Context, addrs []string) error {
	f, o := l.flags, l.options
	l.nodes = newNodes(f.Timeout, o, addrs)
	switch {
	case f.cluster:
		l.Where = "the Cluster at " + strings.Join(addrs, ",")
		l.Client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, NewClient: l.nodes.client, ClusterSlots: l.nodes.slots,
			ContextTimeoutEnabled: true, DialerRetries: 1, DialTimeout: o.DialTimeout,
			DisableRoutingPolicies: true, // they take a COMMAND to any node, also to one that hangs
		})
	case f.sentinels != "":
		l.Where = fmt.Sprintf("the master %s of Sentinel at %s", f.master, f.sentinels)
		named, err := f.nameMaster(ctx, o)
		if err != nil {
			return l.Explain(err)
		}
		l.Where = fmt.Sprintf("the master %s at %s, which Sentinel at %s names", f.master, named.Master, named.Addr)
		l.Client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: f.master, SentinelAddrs: []string{named.Addr}, SentinelUsername: f.sentinelUser, SentinelPassword: f.sentinelPassword,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
			ContextTimeoutEnabled: true, DialerRetries: 1, DialTimeout: o.DialTimeout,
		})
	default:
		l.Where, l.Client = "Redis at "+o.Addr, redis.NewClient(o)
	}
	return nil
}

// Explain returns the error of a call, with where it happened and what to do.
func (l *Link) Explain(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), cli.IsMisuse(err):
		return err
	case errors.Is(err, core.ErrUnit), errors.Is(err, core.ErrCost), errors.Is(err, core.ErrNoKey), errors.Is(err, core.ErrSlots): // Redis was not asked
		return cli.Misuse("%v", err)
	}
	if advice := l.advice(err); advice != "" {
		return fmt.Errorf("%s: %w\n  %s", l.Where, err, l.flags.spell(advice))
	}
	return fmt.Errorf("%s: %w", l.Where, err)
}

// Quiet keeps go-redis from logging failures of its pools: commands report
// them. It is for the beginning of a process.
func Quiet() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
