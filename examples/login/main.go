// A login that resists guessing, and can't be used against the owner of an
// account: guesses at ann's password, from any number of addresses, never keep
// ann out on a device on which she has logged in before. On a new device a link
// in her mail lets her in. Nobody learns whether an account exists. Replace
// accounts, mail and the limits; the rest can stay.
//
//	DEVICE_SECRET=change-me REDIS_URL=redis://localhost:6379 go run ./examples/login
//	curl -i -c cookies -b cookies -d 'user=ann&password=correct horse' localhost:8080/login
//	for i in 1 2 3 4 5 6; do curl -i -d 'user=ann&password=wrong' localhost:8080/login; done   # five 401, then 429
//
// What remains: many addresses together have 100 guesses a day at an account.
// After that the owner needs the link for a new device, and gets at most one
// mail an hour. A guesser at the owner's own address keeps new devices there
// waiting for 15 minutes. Who has stolen a device has 10 guesses an hour on it.
// A second factor ends all that. Very many addresses together can keep all
// processors hashing.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// login decides by the address, the account, and whether the device is known.
type login struct {
	accounts *accounts
	devices  devices
	mail     func(user, link string) // sends a link to the owner, and does not wait
	clientIP func(*http.Request) (string, error)

	known                  *core.Limiter // by account and known device: failures
	pair, address, account *core.Limiter // on unknown devices: failures
	mails                  *core.Limiter // by account
}

func app(store core.Store, observe core.LimiterOption, l login, proxies ...string) http.Handler {
	limiter := func(store core.Store, name string, limits ...core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{
			Name: name, Limits: limits,
			OnFailure: core.FailClosed,  // no logins while Redis is away: each replica would allow all guesses again
			Headers:   core.HeadersNone, // what is left would show whether others try the same account
		}, observe))
	}
	failures := func(n int, every time.Duration) core.Limit { return core.Per(n, every).WithMode(core.Stepped) }
	attempts := limiter(store, "login-attempts", core.PerMinute(30).WithBurst(20))
	l.known = limiter(store, "login-known-device", failures(10, time.Hour))
	l.pair = limiter(store, "login-pair", failures(5, 15*time.Minute))
	l.address = limiter(store, "login-address", failures(20, time.Hour)) // one password tried on many accounts
	l.account = limiter(store, "login-account", failures(100, 24*time.Hour))
	l.mails = limiter(store, "login-mails", core.PerHour(1))
	// The processors are this process' own, so these slots are not in Redis.
	// Two of an address leave some to others.
	here := core.NewMemoryStore()
	hashing := limiter(here, "hashing", core.InFlight(2*runtime.NumCPU()))
	hashingOf := limiter(here, "hashing-of-address", core.InFlight(2))

	trust := core.TrustProxies(proxies...)
	l.clientIP = httplimit.ClientIP(trust)
	mux := http.NewServeMux()
	mux.Handle("POST /login", readForm(httplimit.NewTogether([]httplimit.Rule{
		{Limiter: hashingOf, Key: httplimit.ByIP(trust)},
		{Limiter: hashing, Key: httplimit.Global("hashing")},
	})(http.HandlerFunc(l.login))))
	mux.HandleFunc("GET /device", l.link)
	mux.HandleFunc("GET /health", health)
	// Each attempt costs, also one that succeeds: its password is hashed. It
	// counts requests without a route too.
	return httplimit.New(attempts, httplimit.ByIP(trust), httplimit.WithSkip(isHealth))(mux)
}

func isHealth(r *http.Request) bool { return r.URL.Path == "/health" }

// readForm reads the body before the slots are taken: a client that sends it
// slowly must not hold one meanwhile.
func readForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "unreadable form", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (l *login) login(w http.ResponseWriter, r *http.Request) {
	// The limiters and the accounts must agree on the name, or " Ann " would be
	// another bucket of the same account.
	user := strings.ToLower(strings.TrimSpace(r.PostForm.Get("user")))
	password := r.PostForm.Get("password")
	if user == "" || len(user) > 100 || len(password) > 1000 {
		http.Error(w, "user or password is missing or too long", http.StatusBadRequest)
		return
	}
	ip, err := l.clientIP(r)
	if err != nil {
		http.Error(w, "no address", http.StatusBadRequest)
		return
	}
	// A guess takes its tokens before the password is checked, so guesses at
	// the same time are counted.
	charges := []core.Charge{
		{Limiter: l.pair, Key: core.JoinKey("login", ip, user)},
		{Limiter: l.address, Key: core.JoinKey("ip", ip)},
		{Limiter: l.account, Key: core.JoinKey("account", user)}, // whether it exists or not
	}
	device, isKnown := l.devices.of(r, user)
	if isKnown {
		charges = []core.Charge{{Limiter: l.known, Key: core.JoinKey("device", user, device)}}
	}
	guess, err := core.AllowTogether(r.Context(), charges...)
	switch {
	case err != nil:
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	case !guess.Allowed && !isKnown && guess.Parts[0].Allowed && guess.Parts[1].Allowed:
		// Only the account lacks tokens, by others' guesses. To deny the owner
		// would be what the guesser wants.
		l.challenge(r, user)
		http.Error(w, "We have sent a link to your mail address. Open it here, and log in again.", http.StatusForbidden)
		return
	case !guess.Allowed:
		guess.WriteHeaders(w.Header())
		http.Error(w, "too many attempts", http.StatusTooManyRequests)
		return
	}
	if !l.accounts.check(user, password) {
		slog.Warn("wrong password", "user", user, "client", ip)
		http.Error(w, "wrong user or password", http.StatusUnauthorized)
		return
	}
	// Only the right password gives back what the guess took: a status, such as
	// that of a redirect, could also be a failure's.
	if err := guess.Undo(context.WithoutCancel(r.Context())); err != nil {
		slog.Warn("login: a guess stays charged", "error", err)
	}
	if !isKnown {
		l.devices.remember(w, user)
	}
	_, _ = w.Write([]byte("welcome\n")) // start your session here
}

// challenge mails the owner a link that makes a device known. An attack that
// has sent it before is no harm: the link is there.
func (l *login) challenge(r *http.Request, user string) {
	mail, err := l.mails.Allow(r.Context(), core.JoinKey("account", user))
	if err == nil && mail.Allowed && l.accounts.exists(user) {
		l.mail(user, l.devices.link(user))
	}
}

// link makes the device known on which somebody opens the link.
func (l *login) link(w http.ResponseWriter, r *http.Request) {
	user, ok := l.devices.opened(r)
	if !ok {
		http.Error(w, "this link is not valid any more", http.StatusForbidden)
		return
	}
	l.devices.remember(w, user)
	_, _ = w.Write([]byte("now log in\n"))
}

func health(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// What follows is the same in all examples.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("login-example:"))
		if err == nil {
			err = redis.Ping(ctx)
		}
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err) // else each replica would limit alone, and nobody would notice
		}
		defer redis.Close()
		store = redis
	}
	metrics := promlimit.New()
	prometheus.MustRegister(metrics)
	secret := os.Getenv("DEVICE_SECRET") // the same in all replicas; random, such as 32 bytes in hexadecimal
	if secret == "" {
		log.Fatal("DEVICE_SECRET is empty: it signs the cookies of known devices")
	}
	l := login{
		accounts: newAccounts(600_000, map[string]string{"ann": "correct horse", "bob": "battery staple"}),
		devices:  devices{secret: []byte(secret)},
		mail:     func(user, link string) { log.Printf("to %s: open http://localhost:8080%s", user, link) },
	}
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	handler := app(store, core.WithObserver(metrics.Observe), l, proxies...)
	public := newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), handler)
	admin := newServer(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), promhttp.Handler())
	if err := serve(ctx, public, admin); err != nil {
		log.Fatal(err)
	}
}

// newServer bounds whatever a client could make large, or never finish.
func newServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: http.MaxBytesHandler(handler, 64<<10), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
}

// grace is how long requests may run on after SIGTERM.
var grace = 15 * time.Second

// serve serves until ctx ends, as it does by SIGTERM. It returns when all
// requests have ended. After grace it cancels those that still run, so that
// their handlers return and their slots come back.
func serve(ctx context.Context, servers ...*http.Server) error {
	requests, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, len(servers))
	for _, s := range servers {
		l, err := net.Listen("tcp", s.Addr)
		if err != nil {
			return err
		}
		log.Printf("listening on http://%s", l.Addr())
		s.BaseContext = func(net.Listener) context.Context { return requests }
		go func() { failed <- s.Serve(l) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	time.AfterFunc(grace, cancel)
	atMost, done := context.WithTimeout(context.Background(), grace+5*time.Second)
	defer done()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Shutdown(atMost))
	}
	return errors.Join(errs...)
}
