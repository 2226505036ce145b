package peers

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Redis is a limiter whose buckets live in Redis.
type Redis struct {
	Name   string
	Decide Decide

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

// Connection is where a contender's keys live, and how it connects.
type Connection struct {
	Addr string
	DB   int
	Pool int // most connections of a client of go-redis; 0: its default, ten for each core
}

// builders make the contenders, in the order of tables and plots.
var builders = []func(Connection, Limit) (*Redis, error){
	newLibrary,
	newRedisRate,
	newPipedRedisRate,
	newRueidis,
	newUlule,
	newPipedUlule,
	newThrottled,
	newHTTPRate,
	newGinRateLimit,
	// sethvargo/go-limiter keeps its Redis store in another module, go-redisstore.
}

// Databases is the highest that OnRedis uses.
var Databases = len(builders)

// OnRedis builds all limiters, each in a database of its own, whatever to.DB says. Names, if given, choose among them.
func OnRedis(to Connection, l Limit, names ...string) ([]*Redis, error) {
	var all []*Redis
	for i, build := range builders {
		to.DB = i + 1
		r, err := build(to, l)
		if err != nil {
			return nil, fmt.Errorf("building contender %d: %w", i+1, err)
		}
		r.DB = to.DB
		if len(names) > 0 && !slices.Contains(names, r.Name) {
			r.Close()
			continue
		}
		all = append(all, r)
	}
	return all, nil
}

// client is the go-redis client of all that take one, with a pool of its own. Its commands end with their contexts, as those
// of a service should.
func client(to Connection) (*redis.Client, func()) {
	c := redis.NewClient(&redis.Options{Addr: to.Addr, DB: to.DB, PoolSize: to.Pool, ContextTimeoutEnabled: true})
	return c, func() { _ = c.Close() }
}

// Piped is what the name of a contender on go-redis' AutoPipeline ends with: concurrent commands share round trips there.
const Piped = ", AutoPipeline"

// piped is a client whose concurrent commands share round trips.
func piped(to Connection) (*redis.AutoPipeliner, func(), error) {
	c, closeClient := client(to)
	p, err := c.AutoPipeline()
	if err != nil {
		closeClient()
		return nil, nil, err
	}
	return p, func() { _ = p.Close(); closeClient() }, nil
}
