package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
)

type service struct {
	app *fiber.App
	now time.Time
}

func newService() *service {
	s := &service{now: time.Unix(1_800_000_000, 0)}
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return s.now }))
	users := newAccounts(1, map[string]string{"ann": "right", "bob": "right"})
	s.app = newApp(store, users, core.TrustProxies("0.0.0.0")) // the peer of fiber's Test
	return s
}

func (s *service) login(t *testing.T, ip, user, password string) (status int, answer string) {
	t.Helper()
	form := url.Values{"user": {user}, "password": {password}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", fiber.MIMEApplicationForm)
	r.Header.Set("X-Forwarded-For", ip)
	resp, err := s.app.Test(r, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	header := maps.Clone(resp.Header)
	header.Del("Date")
	return resp.StatusCode, fmt.Sprint(header, string(body))
}

func (s *service) want(t *testing.T, want int, ip, user, password string) {
	t.Helper()
	if got, _ := s.login(t, ip, user, password); got != want {
		t.Errorf("%s from %s with password %q: status %d, want %d", user, ip, password, got, want)
	}
}

const home = "192.0.2.1"

func TestOnlyFailuresCount(t *testing.T) {
	s := newService()
	for range 200 { // more than any of the limits
		s.want(t, http.StatusOK, home, "ann", "right")
	}
	for range 5 {
		s.want(t, http.StatusUnauthorized, home, "ann", "wrong")
	}
	s.want(t, http.StatusTooManyRequests, home, "ann", "right") // else it would still be guessing
	s.now = s.now.Add(15 * time.Minute)
	s.want(t, http.StatusOK, home, "ann", "right")
}

func TestOthersAreNotShutOut(t *testing.T) {
	s := newService()
	for range 50 {
		s.login(t, home, "ann", "wrong")
	}
	s.want(t, http.StatusTooManyRequests, home, "ann", "right")
	s.want(t, http.StatusOK, "198.51.100.7", "ann", "right") // the owner, elsewhere
	s.want(t, http.StatusOK, home, "bob", "right")           // a neighbour: denied attempts don't count against the address
}

func TestUnknownAccountsCannotBeTold(t *testing.T) {
	s := newService()
	for i := range 7 {
		status, ann := s.login(t, home, "ann", "wrong")
		nobodyStatus, nobody := s.login(t, home, "nobody", "wrong")
		if status != nobodyStatus || ann != nobody {
			t.Errorf("attempt %d: a known account is answered %d %s, an unknown one %d %s", i+1, status, ann, nobodyStatus, nobody)
		}
	}
}

func TestSpellingsShareABucket(t *testing.T) {
	s := newService()
	for _, user := range []string{"ann", "Ann", " ann", "ANN ", "aNn"} {
		s.want(t, http.StatusUnauthorized, home, user, "wrong")
	}
	s.want(t, http.StatusTooManyRequests, home, "ann", "wrong")
}

func TestOnePasswordOnManyAccounts(t *testing.T) {
	s := newService()
	for i := range 20 {
		s.want(t, http.StatusUnauthorized, home, fmt.Sprint("user", i), "123456")
	}
	s.want(t, http.StatusTooManyRequests, home, "user21", "123456")
}

func TestOneAccountFromManyAddresses(t *testing.T) {
	s := newService()
	for i := range 100 {
		s.want(t, http.StatusUnauthorized, fmt.Sprint("198.51.100.", i), "ann", "wrong")
	}
	s.want(t, http.StatusTooManyRequests, "203.0.113.1", "ann", "wrong")
}

func TestParallelGuessesAreCounted(t *testing.T) {
	s := newService()
	var wrong sync.Map
	var guesses sync.WaitGroup
	for i := range 50 {
		guesses.Go(func() {
			if status, _ := s.login(t, home, "ann", "wrong"); status == http.StatusUnauthorized {
				wrong.Store(i, true)
			}
		})
	}
	guesses.Wait()
	n := 0
	wrong.Range(func(any, any) bool { n++; return true })
	if n != 5 {
		t.Errorf("%d of 50 parallel guesses were tried, want 5", n)
	}
}

func TestWithoutAnAccount(t *testing.T) {
	s := newService()
	s.want(t, http.StatusBadRequest, home, "  ", "x")
}
