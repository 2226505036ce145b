package peers

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Redis is a limiter whose buckets live in Redis.
type Redis struct {
	Name      string
	Algorithm string
	Decide    Decide

	// DB is the database it has for itself, so that its keys can be counted.
	DB int
	// KeysPerKey is how many Redis keys it uses for one key.
	KeysPerKey int64
	// Scripted limiters decide in one script: their server time can be told from commandstats.
	Scripted bool

	close func()
}

// Close ends its connections.
func (r *Redis) Close() { r.close() }

// builders make the contenders, in the order of tables and plots.
var builders = []func(addr string, db int, l Limit) (*Redis, error){
	newLibrary,
	newRedisRate,
	newRueidis,
	newUlule,
	newThrottled,
	newHTTPRate,
	newGinRateLimit,
	// sethvargo/go-limiter keeps its Redis store in another module, go-redisstore.
}

// OnRedis builds all limiters on the server at addr. Names, if given, choose among them.
func OnRedis(addr string, l Limit, names ...string) ([]*Redis, error) {
	var all []*Redis
	for i, build := range builders {
		r, err := build(addr, i+1, l)
		if err != nil {
			return nil, fmt.Errorf("building contender %d: %w", i+1, err)
		}
		r.DB = i + 1
		if len(names) > 0 && !slices.Contains(names, r.Name) {
			r.Close()
			continue
		}
		all = append(all, r)
	}
	return all, nil
}

// client is the go-redis client of all that use one: its defaults, with a pool of its own.
func client(addr string, db int) (*redis.Client, func()) {
	c := redis.NewClient(&redis.Options{Addr: addr, DB: db})
	return c, func() { _ = c.Close() }
}
