// A fiber app whose login resists guessing: only failures count, and three limiters stand in front of it.
// Clients can't find out whether an account exists: the app limits and answers unknown accounts like
// known ones, and takes as long. Try:
//
//	go run ./examples/login                        # buckets in this process
//	go run ./examples/login -redis localhost:6379  # buckets shared through Redis
//
//	curl -i -d 'user=ann&password=correct horse' localhost:8080/login  # welcome, as often as you like
//	for i in 1 2 3 4 5 6; do curl -i -d 'user=ann&password=wrong' localhost:8080/login; done   # five 401, then 429
//	for i in 1 2 3 4 5 6; do curl -i -d 'user=nobody&password=wrong' localhost:8080/login; done  # the same for an unknown account
//	curl -i -d 'user=bob&password=battery staple' localhost:8080/login # welcome: the guesses at ann's account don't lock bob out
//
// Behind a proxy, name it. From another address ann can log in too, because only guesses from the first address used up its bucket:
//
//	go run ./examples/login -proxy 127.0.0.1
//	curl -i -H 'X-Forwarded-For: 203.0.113.9' -d 'user=ann&password=correct horse' localhost:8080/login
package main

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"flag"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	proxy := flag.String("proxy", "", "address or CIDR range of the proxy in front; empty: clients connect directly")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("login-example:"))
	}
	var trust []core.IPOption
	if *proxy != "" {
		trust = append(trust, core.TrustProxies(*proxy))
	}
	users := newAccounts(600_000, map[string]string{"ann": "correct horse", "bob": "battery staple"})
	log.Printf("listening on http://%s", *addr)
	log.Fatal(newApp(store, users, trust...).Listen(*addr))
}

func newApp(store core.Store, users *accounts, trust ...core.IPOption) *fiber.App {
	policy := func(name string, failures int64, every time.Duration) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{
			Name:      name,
			Limits:    []core.Limit{{Capacity: failures, RefillRate: float64(failures), RefillInterval: every, Mode: core.Stepped}},
			OnFailure: core.FailClosed,  // no logins while Redis is away: with FailLocal each replica would count alone
			Headers:   core.HeadersNone, // Remaining would show whether others try the same account
		}))
	}
	// The limit of an account and an address together is low: it stops guesses from one address. The limit of an
	// account alone stops guesses from many addresses. It is much higher, or anybody could lock out the owner.
	// The limit of an address alone stops one password tried on many accounts. Many people can share the address.
	pair := policy("login-pair", 5, 15*time.Minute)
	address := policy("login-address", 20, time.Hour)
	account := policy("login-account", 100, 24*time.Hour)

	byIP, clientIP := fiberlimit.ByIP(trust...), fiberlimit.ClientIP(trust...)
	// Every attempt takes its tokens before the login, so parallel guesses can't exceed the limit. It gets them
	// back unless the password was wrong. It gets them back after the 429 of an inner limiter too.
	failuresOnly := fiberlimit.WithRefund(func(_ *fiber.Ctx, status int) bool { return status != fiber.StatusUnauthorized })

	app := fiber.New(fiber.Config{DisableStartupMessage: true, BodyLimit: 4 << 10})
	app.Post("/login",
		fiberlimit.New(address, byIP, failuresOnly),
		fiberlimit.New(account, byAccount, failuresOnly),
		fiberlimit.New(pair, fiberlimit.Join(byIP, byAccount), failuresOnly),
		func(c *fiber.Ctx) error {
			user, password, err := credentials(c)
			if err != nil {
				return err
			}
			if !users.check(user, password) {
				ip, _ := clientIP(c) // no error: byIP has admitted it
				slog.Warn("wrong password", "user", user, "client", ip)
				return fiber.NewError(fiber.StatusUnauthorized, "wrong user or password")
			}
			return c.SendString("welcome\n")
		})
	return app
}

// byAccount limits by the account that is tried, whether it exists or not.
func byAccount(c *fiber.Ctx) (string, error) {
	user, _, err := credentials(c)
	if err != nil || user == "" {
		return "", core.ErrNoKey // answered 400
	}
	return core.JoinKey("account", user), nil
}

// credentials reads a form or JSON. The limiter and the login must agree on the name, or " Ann "
// would be another bucket of the same account.
func credentials(c *fiber.Ctx) (user, password string, err error) {
	var body struct {
		User     string `form:"user" json:"user"`
		Password string `form:"password" json:"password"`
	}
	if err := c.BodyParser(&body); err != nil {
		return "", "", fiber.ErrBadRequest
	}
	return strings.ToLower(strings.TrimSpace(body.User)), body.Password, nil
}

// accounts stands for your database of users.
type accounts struct {
	iterations int
	known      map[string]salted
	nobody     salted // what unknown accounts are compared with, so that they take as long
}

type salted struct{ salt, hash []byte }

func newAccounts(iterations int, passwords map[string]string) *accounts {
	a := &accounts{iterations: iterations, known: make(map[string]salted)}
	for user, password := range passwords {
		a.known[user] = a.salt(password)
	}
	a.nobody = a.salt(rand.Text())
	return a
}

func (a *accounts) salt(password string) salted {
	salt := []byte(rand.Text())
	return salted{salt, a.hash(password, salt)}
}

func (a *accounts) hash(password string, salt []byte) []byte {
	return core.Must(pbkdf2.Key(sha256.New, password, salt, a.iterations, sha256.Size))
}

// check takes the same time for every account.
func (a *accounts) check(user, password string) bool {
	want, known := a.known[user]
	if !known {
		want = a.nobody
	}
	same := subtle.ConstantTimeCompare(a.hash(password, want.salt), want.hash) == 1
	return same && known
}
