// An echo app whose users have plans in a database. The policy has the limits of each plan. The app reads
// a user's plan at most once in 5 seconds for each user. SQLite in memory stands in for your database. Try:
//
//	cd examples/extra/tiers
//	go run .                        # buckets in this process
//	go run . -redis localhost:6379  # buckets shared through Redis
//
//	curl -i -H 'X-Api-Key: ann-key' localhost:8080/reports              # free: RateLimit-Policy says 5 a minute
//	curl -i -H 'X-Api-Key: bob-key' localhost:8080/reports              # pro: 60 a minute, 20 at once, 10000 a day
//	for i in 1 2 3 4 5 6; do curl -H 'X-Api-Key: ann-key' localhost:8080/reports; done  # free is used up
//	curl -X POST -H 'X-Api-Key: ann-key' 'localhost:8080/plan?name=pro' # ann pays
//	curl -i -H 'X-Api-Key: ann-key' localhost:8080/reports              # 200: of the 20 that the pro plan holds, 5 are used
//	curl -i -H 'X-Api-Key: eve-key' localhost:8080/reports              # 401: unknown key
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("tiers-example:"))
	}
	db, err := openDB(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(newServer(store, newUsers(db)).Start(*addr))
}

func newServer(store core.Store, users *users) *echo.Echo {
	api := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerMinute(2).WithName("minute")}, // of users without a plan
		Plans: map[string][]core.Limit{ // limits of the same name are one bucket, so a new plan does not refill it
			"free": {core.PerMinute(5).WithName("minute")},
			"pro":  {core.PerMinute(60).WithName("minute").WithBurst(20), core.PerDay(10_000).WithName("day").WithMode(core.Aligned)},
		},
	}))

	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(authenticate(users))
	e.POST("/plan", func(c echo.Context) error { // not limited: a user with an empty bucket must be able to change the plan
		if _, known := api.Policy().Plans[c.QueryParam("name")]; !known {
			return echo.NewHTTPError(http.StatusBadRequest, "no such plan")
		}
		if err := users.setPlan(c.Request().Context(), c.Request().Header.Get("X-Api-Key"), c.QueryParam("name")); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
	limited := e.Group("", echolimit.New(api,
		func(c echo.Context) (string, error) { return core.JoinKey("user", userOf(c).name), nil },
		echolimit.WithPlan(func(c echo.Context) (string, error) { return userOf(c).plan, nil }),
	))
	limited.GET("/reports", func(c echo.Context) error {
		res, _ := echolimit.FromContext(c)
		return c.JSON(http.StatusOK, map[string]any{"user": userOf(c).name, "left": res.Remaining})
	})
	return e
}

// authenticate finds the user of the API key. It runs before the limiter, whose key is the user.
func authenticate(users *users) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			u, err := users.byKey(c.Request().Context(), c.Request().Header.Get("X-Api-Key"))
			switch {
			case errors.Is(err, sql.ErrNoRows):
				return echo.NewHTTPError(http.StatusUnauthorized, "unknown API key")
			case err != nil:
				return echo.NewHTTPError(http.StatusServiceUnavailable).SetInternal(err)
			}
			c.Set("user", u)
			return next(c)
		}
	}
}

func userOf(c echo.Context) user { return c.Get("user").(user) }

type user struct {
	name string
	plan string // a name in Policy.Plans; "" without one
}

// users reads users and their plans from the database, and caches each for ttl. So most requests need no
// query, and every replica has a new plan after ttl at the latest.
type users struct {
	db  *sql.DB
	ttl time.Duration
	now func() time.Time

	mu     sync.Mutex
	cached map[string]cachedUser // by API key
}

type cachedUser struct {
	user
	err   error // sql.ErrNoRows is cached too, so that guessing the same key again needs no query
	until time.Time
}

// maxCached bounds the cache: clients choose the keys.
const maxCached = 100_000

func newUsers(db *sql.DB) *users {
	return &users{db: db, ttl: 5 * time.Second, now: time.Now, cached: make(map[string]cachedUser)}
}

func (u *users) byKey(ctx context.Context, apiKey string) (user, error) {
	u.mu.Lock()
	c, known := u.cached[apiKey]
	u.mu.Unlock()
	if known && u.now().Before(c.until) {
		return c.user, c.err
	}
	found, err := u.query(ctx, apiKey) // without the lock: others need not wait for the database
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		if known { // the database does not answer: the last known plan is better than an error
			return c.user, c.err
		}
		return user{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.cached) >= maxCached {
		clear(u.cached)
	}
	u.cached[apiKey] = cachedUser{found, err, u.now().Add(u.ttl)}
	return found, err
}

func (u *users) query(ctx context.Context, apiKey string) (user, error) {
	var found user
	var plan sql.NullString
	err := u.db.QueryRowContext(ctx, `SELECT name, plan FROM users WHERE api_key = ?`, apiKey).Scan(&found.name, &plan)
	found.plan = plan.String
	return found, err
}

func (u *users) setPlan(ctx context.Context, apiKey, plan string) error {
	if _, err := u.db.ExecContext(ctx, `UPDATE users SET plan = ? WHERE api_key = ?`, plan, apiKey); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.cached, apiKey) // here at once; other replicas follow after ttl
	return nil
}

// openDB returns a database in memory with three users.
func openDB(ctx context.Context) (*sql.DB, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // every connection would be a database of its own
	_, err = db.ExecContext(ctx, `
		CREATE TABLE users (api_key TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, plan TEXT);
		INSERT INTO users VALUES ('ann-key', 'ann', 'free'), ('bob-key', 'bob', 'pro'), ('cid-key', 'cid', NULL);`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
