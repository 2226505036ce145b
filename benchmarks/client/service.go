package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// style is what the answers of a service say.
type style struct {
	name   string
	header core.HeaderStyle
}

var styles = []style{
	{"RateLimit (drafts 8 to 11)", core.HeadersDraft8},
	{"X-RateLimit", core.HeadersLegacy},
	{"Retry-After alone", core.HeadersNone},
}

// service serves 50 requests a second, and counts those that it refuses.
type service struct {
	*httptest.Server

	refused atomic.Int64
}

func newService(style style) *service {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "service", Limits: []core.Limit{core.PerSecond(perSecond)}, Headers: style.header,
	}))
	s := new(service)
	limited := httplimit.New(limiter, httplimit.Global("all"), httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, _ core.Result) {
		s.refused.Add(1)
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	s.Server = httptest.NewServer(limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })))
	return s
}

// startRedis starts a server on a free port.
func startRedis() (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	address = l.Addr().String()
	l.Close()
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", os.TempDir())
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	for range 100 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address, func() {
				if err := cmd.Process.Kill(); err != nil {
					log.Print(err)
				}
				_ = cmd.Wait()
			}, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", nil, fmt.Errorf("redis-server does not answer on %s", address)
}
