package redisstore_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// What to write instead of a URL that is refused.
const (
	aURL         = "write redis://user:password@host:6379/0, rediss://… for TLS, or unix:///path/of/socket"
	oneServer    = `redisstore.New(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"n1:6379", "n2:6379"}}))`
	hostAndPort  = "redis://user:password@host:6379/0 or redis://[::1]:6379"
	threeSlashes = "unix:///path/of/socket"
	aDatabase    = "redis://host:6379/0"
	anOption     = "redis://host:6379/0?dial_timeout=2s"
)

// refusedURLs are forms that people write, and what Open tells them to write.
// The secret stands in each place where a password may.
var refusedURLs = []struct{ url, says string }{
	// No URL.
	{"", aURL},
	{"SECRET", aURL},
	{"localhost:6379", aURL},
	{"user:SECRET@localhost:6379", aURL},
	{"unix:/run/SECRET.sock", aURL},

	// Connection strings of others, and what is pasted.
	{"host:6380,password=SECRET,ssl=True,abortConnect=False", aURL}, // Azure, StackExchange.Redis
	{"master.name.use1.cache.amazonaws.com:6379,SECRET", aURL},      // AWS, with its token
	{"redis-cli -u redis://user:SECRET@localhost:6379/0", aURL},     // pasted
	{"REDIS_URL=redis://user:SECRET@localhost:6379", aURL},          // pasted
	{"jdbc:redis://user:SECRET@localhost:6379/0", aURL},             // JDBC
	{"redis+sentinel://:SECRET@s1:26379,s2:26379/mymaster", aURL},   // redis-py and others
	{"redis-socket:///run/redis.sock?password=SECRET", aURL},        // Lettuce
	{"\"redis://user:SECRET@localhost:6379\"", aURL},                // with its quotes
	{"${REDIS_URL:-redis://user:SECRET@localhost}", aURL},           // not expanded
	{"https://default:SECRET@name.upstash.io", aURL},                // its REST address
	{"SECRET://localhost:6379", aURL},
	{"redis://user:SECRET@localhost:6379\n", aURL},     // read from a file
	{"redis://user:SECRET@localhost:6379\u00a0", aURL}, // from a page
	{"\ufeffredis://user:SECRET@localhost:6379", aURL}, // a byte order mark

	// Several servers.
	{"redis://n1:6379,n2:6379", oneServer},
	{"redis://user:SECRET@n1:6379,n2:6379/0", oneServer},
	{"redis://n1:6379?addr=n2:6379&addr=SECRET", oneServer},
	{"redis://host:6380,password=SECRET,ssl=True", oneServer},

	// Hosts, ports, and passwords that are not percent-encoded.
	{"redis://user:SECRET", hostAndPort},
	{"redis://user:SECRET@localhost:123456/0", hostAndPort},
	{"redis://user:SECRET@localhost/%zz", hostAndPort},
	{"redis://user:SECRET/x@localhost:6379/0", hostAndPort},
	{"redis://localhost:6379/0#SECRET", hostAndPort},
	{"redis://user:\"SECRET\"@localhost:6379", hostAndPort},
	{"redis://user:SECRET@::1:6379", hostAndPort},
	{"redis://[SECRET]:6379", hostAndPort},
	{"redis://host;password=SECRET", hostAndPort},
	{"redis://\xff\xfe:6379", hostAndPort},

	// Sockets.
	{"unix://", threeSlashes},
	{"unix://run/redis.sock", threeSlashes},
	{"unix://user:SECRET@run/redis.sock", threeSlashes},

	// Databases.
	{"redis://user:SECRET@localhost/x", aDatabase},
	{"redis://localhost:6379/0/SECRET", aDatabase},
	{"redis://localhost:6379/-1", aDatabase},

	// Options.
	{"redis://localhost:6379?password=SECRET", anOption},
	{"redis://h:6379?SECRET=1", anOption},
	{"redis://user:12?SECRET@localhost:6379", anOption},
	{"redis://h:6379?pool_size=SECRET", anOption},
	{"redis://h:6379?pool_size=3;password=SECRET", anOption}, // net/url drops it
	{"redis://h:6379?pool_size=%zz&password=SECRET", anOption},
	{"redis://h:6379?pool_size=-1&client_name=SECRET", anOption},
	{"unix:///run/redis.sock?password=SECRET", anOption},
}

func TestOpenRefusesAndShowsNoPartOfTheURL(t *testing.T) {
	for _, test := range refusedURLs {
		store, err := redisstore.Open(test.url)
		if err == nil {
			_ = store.Close()
			t.Errorf("Open(%q) takes it", test.url)
			continue
		}
		begins := strings.HasPrefix(err.Error(), "ratelimit: redisstore.Open url: (not shown) must ")
		if store != nil || !begins || !strings.Contains(err.Error(), test.says) {
			t.Errorf("Open(%q) returns %v; want an error that says to write %q", test.url, err, test.says)
		}
		if mistake := (*core.ConfigError)(nil); !errors.As(err, &mistake) || mistake.Code() != "RL302" {
			t.Errorf("Open(%q) returns %v; want a core.ConfigError with a code", test.url, err)
		}
		if shown := everythingOf(err); strings.Contains(shown, "SECRET") {
			t.Errorf("Open(%q) shows the password: %s", test.url, shown)
		}
	}
}

// everythingOf returns all that a program can print of an error and of the
// errors in it.
func everythingOf(err error) string {
	text := fmt.Sprintf("%v %+v %#v\n", err, err, err)
	if mistake, ok := err.(*core.ConfigError); ok {
		text += fmt.Sprintf("%v %+v %#v\n", mistake.Value, *mistake, *mistake)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			text += everythingOf(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text += everythingOf(inner)
		}
	}
	return text
}

// A secret at any place of any address stays out of the error.
func FuzzAddressesAreNotShown(f *testing.F) {
	const secret = "s3cr3t0Zz"
	for _, test := range refusedURLs {
		for i := 0; i <= len(test.url); i += 3 {
			f.Add(test.url, i)
		}
	}
	f.Fuzz(func(t *testing.T, address string, at int) {
		if at < 0 || at > len(address) {
			return
		}
		_, err := redisstore.ParseURL(address[:at] + secret + address[at:])
		if err != nil && strings.Contains(everythingOf(err), secret) {
			t.Errorf("ParseURL(%q) shows the secret: %v", address[:at]+secret+address[at:], err)
		}
	})
}

func TestOpenTakesURLsOfOneServer(t *testing.T) {
	for _, url := range []string{
		"redis://localhost", "redis://localhost:6379", "redis://localhost/", "redis://localhost:6379/0",
		"REDIS://Localhost:6379/15", "rediss://localhost:6380", "redis://:6379",
		"redis://:password@localhost", "redis://user@localhost", "redis://user:p%2F%3F%23%40%25%2Cw@localhost:6379/2",
		"redis://user:p,w@localhost", "redis://user:p@w@localhost", "redis://user:p=w;!$&'()*+~@localhost",
		"redis://192.0.2.1:6379", "redis://[::1]:6379", "redis://[::1]", "redis://[fe80::1%25eth0]:6379",
		"redis://my_redis-0.name.svc.cluster.local:65535", "redis://büro:6379",
		"redis://localhost:6379?db=3&dial_timeout=2s&pool_size=20", "rediss://localhost:6379/0?skip_verify=true",
		"unix:///run/redis.sock", "unix://user:password@/run/redis.sock?db=1",
	} {
		store, err := redisstore.Open(url)
		if err != nil {
			t.Errorf("Open(%q) returns %v", url, err)
			continue
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A URL or a connection string in the place of host:port would be shown by each
// error of go-redis.
func TestAClientWhoseAddressMayHaveAPasswordIsAMistake(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}}
	addresses := []string{
		"redis://:SECRET@localhost:6379", "user:SECRET@localhost:6379", "localhost:6379,password=SECRET",
		"localhost;password=SECRET:6379", "localhost:6379?password=SECRET", "-h localhost -a SECRET", "http://SECRET",
		"localhost:6379/SECRET", "localhost:6379#SECRET", `"SECRET"`, "'localhost:SECRET'",
	}
	for _, address := range addresses {
		for name, client := range map[string]redis.UniversalClient{
			"Client":        redis.NewClient(&redis.Options{Addr: address}),
			"ClusterClient": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:6379", address}}),
			"Ring":          redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:6379", "b": address}}),
		} {
			t.Cleanup(func() { _ = client.Close() })
			_, err := core.NewLimiter(redisstore.New(client), policy)
			if mistake := (*core.ConfigError)(nil); !errors.As(err, &mistake) || mistake.Code() != "RL302" ||
				!strings.Contains(err.Error(), "redisstore.New client: (not shown) must have host:port") {
				t.Errorf("a %s of %q: NewLimiter returns %v; want a mistake that says what to write", name, address, err)
				continue
			}
			if shown := everythingOf(err); strings.Contains(shown, "SECRET") {
				t.Errorf("a %s of %q: NewLimiter shows the password: %s", name, address, shown)
			}
		}
	}
}

// go-redis takes an address that begins with a slash for that of a socket.
func TestClientsOnSocketsAreNoMistake(t *testing.T) {
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}}
	for _, client := range []redis.UniversalClient{
		redis.NewClient(&redis.Options{Addr: "/run/redis.sock"}), redis.NewClient(&redis.Options{Network: "unix", Addr: "run/redis.sock"}),
		redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "/run/a.sock", "b": "/run/b.sock"}}),
	} {
		t.Cleanup(func() { _ = client.Close() })
		if _, err := core.NewLimiter(redisstore.New(client), policy); err != nil {
			t.Error(err)
		}
	}
}

func TestAnOutageNamesTheServerWithoutItsPassword(t *testing.T) {
	var lines logtest.Buffer
	store := opened(t, "redis://user:SECRET@127.0.0.1:1/3?client_name=SECRET", redisstore.WithTimeout(10*time.Second),
		redisstore.WithBreaker(1, time.Minute), core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}, OnFailure: core.FailClosed}
	l, err := core.NewLimiter(store, policy)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := l.Allow(t.Context(), "k")
		if err == nil || strings.Contains(everythingOf(err), "SECRET") {
			t.Errorf("without a server a decision returns %v; want an error without the password", err)
		}
	}
	if shown := lines.String(); !strings.Contains(shown, "redis://127.0.0.1:1") || strings.Contains(shown, "SECRET") {
		t.Errorf("the log must name the server and not the password: %s", shown)
	}
}
