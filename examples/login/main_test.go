package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

func none() core.LimiterOption { return core.WithObserver(nil) }

// request is a login with the right password of key, if that is an account.
func request(key string) *http.Request {
	form := url.Values{"user": {key}, "password": {"right"}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func newLogin(mail func(user, link string)) login {
	return login{
		accounts: newAccounts(1, map[string]string{"ann": "right", "bob": "right"}),
		devices:  devices{secret: []byte("secret")},
		mail:     mail,
	}
}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		return hostile.App{
			Server: newServer("", app(store, none(), newLogin(func(string, string) {}))), Request: request,
			Attacker: "ann", Victim: "bob", PerKey: 20, PerAddress: 20,
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann") }, "DEVICE_SECRET=secret")
}

func TestWithoutASecretTheProgramEnds(t *testing.T) {
	p := hostile.Fail(t, "DEVICE_SECRET=")
	require.Contains(t, p.Log.String(), "DEVICE_SECRET")
}

// service is the app with a clock of its own, and the mails that it has sent.
type service struct {
	handler http.Handler
	now     atomic.Int64 // seconds

	mu    sync.Mutex
	links []string // to ann
}

func newService() *service {
	s := new(service)
	s.now.Store(1_800_000_000)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return time.Unix(s.now.Load(), 0) }))
	s.handler = app(store, none(), newLogin(func(user, link string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if user != "ann" {
			panic("a mail to " + user)
		}
		s.links = append(s.links, link)
	}), "192.0.2.1")
	return s
}

func (s *service) wait(d time.Duration) { s.now.Add(int64(d / time.Second)) }

// client has an address, and keeps its cookies.
type client struct {
	*service
	ip      string
	cookies []*http.Cookie
}

func (s *service) at(ip string) *client { return &client{service: s, ip: ip} }

func (c *client) do(r *http.Request) (status int, answer string) {
	r.RemoteAddr = "192.0.2.1:1234" // the proxy
	r.Header.Set("X-Forwarded-For", c.ip)
	for _, cookie := range c.cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	res := w.Result()
	c.cookies = append(c.cookies, res.Cookies()...)
	header := maps.Clone(res.Header)
	header.Del("Date")
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, fmt.Sprint(header, string(body))
}

func (c *client) login(user, password string) int {
	status, _ := c.answer(user, password)
	return status
}

func (c *client) answer(user, password string) (status int, answer string) {
	form := url.Values{"user": {user}, "password": {password}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return c.do(r)
}

// attack guesses at an account from many addresses until the account has no
// tokens left.
func (s *service) attack(t *testing.T, user string) {
	t.Helper()
	for i := range 100 {
		require.Equal(t, http.StatusUnauthorized, s.at(fmt.Sprint("198.51.100.", i)).login(user, "wrong"))
	}
}

func TestGuessesFromManyAddressesKeepNoKnownDeviceOut(t *testing.T) {
	s := newService()
	owner := s.at("203.0.113.1")
	require.Equal(t, http.StatusOK, owner.login("ann", "right"))
	s.attack(t, "ann")
	for range 10 {
		assert.Equal(t, http.StatusOK, owner.login("ann", "right"))
	}
	owner.ip = "203.0.113.77"
	assert.Equal(t, http.StatusOK, owner.login("ann", "right"), "the device is known at any address")
}

func TestGuessesFromManyAddressesLeaveANewDeviceTheLinkInTheMail(t *testing.T) {
	s := newService()
	s.attack(t, "ann")
	owner := s.at("203.0.113.1")
	assert.Equal(t, http.StatusForbidden, owner.login("ann", "right"), "the hundredth and first guess needs the link")
	require.Len(t, s.links, 1)
	status, _ := owner.do(httptest.NewRequest(http.MethodGet, s.links[0], nil))
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, http.StatusOK, owner.login("ann", "right"))
	assert.Equal(t, http.StatusForbidden, s.at("203.0.113.2").login("ann", "right"), "others still need it")
	assert.Equal(t, http.StatusForbidden, s.at("203.0.113.3").login("ann", "right"))
	assert.Len(t, s.links, 1, "one mail an hour")
	s.wait(time.Hour)
	s.at("203.0.113.4").login("ann", "wrong")
	assert.Len(t, s.links, 2)
}

func TestAKnownDeviceHasTenGuessesAnHour(t *testing.T) {
	s := newService()
	thief := s.at("203.0.113.1")
	require.Equal(t, http.StatusOK, thief.login("ann", "right"))
	for i := range 10 {
		require.Equal(t, http.StatusUnauthorized, thief.login("ann", "wrong"), i)
	}
	assert.Equal(t, http.StatusTooManyRequests, thief.login("ann", "right"))
}

func TestMadeUpDevicesAreUnknown(t *testing.T) {
	s := newService()
	bob := s.at("203.0.113.1")
	require.Equal(t, http.StatusOK, bob.login("bob", "right"))
	s.attack(t, "ann")
	assert.Equal(t, http.StatusForbidden, bob.login("ann", "right"), "a device of bob is none of ann")
	bob.cookies[0].Value = strings.Split(bob.cookies[0].Value, ".")[0] + "."
	assert.Equal(t, http.StatusForbidden, bob.login("ann", "right"))
	for _, link := range []string{
		"/device?user=ann&until=9999999999&sign=", "/device?user=ann&until=9999999999&sign=" + devices{}.sign("link", "ann", "9999999999"),
		strings.Replace(s.links[0], "ann", "bob", 1), strings.Replace(s.links[0], "until=1", "until=2", 1),
		"/device?user=ann&until=1&sign=" + devices{[]byte("secret")}.sign("link", "ann", "1"),
	} {
		status, _ := bob.do(httptest.NewRequest(http.MethodGet, link, nil))
		assert.Equal(t, http.StatusForbidden, status, link)
	}
}

func TestOnlyWrongPasswordsCount(t *testing.T) {
	s := newService()
	for range 10 {
		require.Equal(t, http.StatusOK, s.at("203.0.113.1").login("ann", "right"))
	}
	for range 5 {
		require.Equal(t, http.StatusUnauthorized, s.at("203.0.113.1").login("ann", "wrong"))
	}
	assert.Equal(t, http.StatusTooManyRequests, s.at("203.0.113.1").login("ann", "right"), "else it would go on guessing")
	assert.Equal(t, http.StatusOK, s.at("203.0.113.1").login("bob", "right"), "a neighbour")
	s.wait(15 * time.Minute)
	assert.Equal(t, http.StatusOK, s.at("203.0.113.1").login("ann", "right"))
}

func TestEachAttemptCostsItsAddress(t *testing.T) {
	s := newService()
	c := s.at("203.0.113.1")
	for range 20 {
		require.Equal(t, http.StatusOK, c.login("ann", "right"))
	}
	assert.Equal(t, http.StatusTooManyRequests, c.login("ann", "right"))
	assert.Equal(t, http.StatusOK, s.at("203.0.113.2").login("ann", "right"))
}

// A client that sends its form slowly holds no slot of those that hash.
func TestSlowFormsKeepNobodyOut(t *testing.T) {
	server := httptest.NewServer(app(core.NewMemoryStore(), none(), newLogin(func(string, string) {}), "127.0.0.1"))
	defer server.Close()
	defer server.CloseClientConnections()
	for i := range 4 * runtime.NumCPU() {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		_, err = fmt.Fprintf(c, "POST /login HTTP/1.1\r\nHost: app\r\nX-Forwarded-For: 198.51.100.%d\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
			"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n", i)
		require.NoError(t, err)
		line, err := bufio.NewReader(c).ReadString('\n') // the handler has begun to read
		require.NoError(t, err)
		require.Contains(t, line, "100")
	}
	r := request("ann")
	r.URL, _ = url.Parse(server.URL + "/login")
	r.RequestURI = ""
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func TestNobodyLearnsWhetherAnAccountExists(t *testing.T) {
	s := newService()
	compare := func(ip string) {
		t.Helper()
		status, ann := s.at(ip).answer("ann", "wrong")
		nobodyStatus, nobody := s.at(ip).answer("nobody", "wrong")
		assert.Equal(t, status, nobodyStatus)
		assert.Equal(t, ann, nobody)
	}
	for range 6 {
		compare("203.0.113.1")
	}
	for i := range 100 {
		compare(fmt.Sprint("198.51.100.", i))
	}
	assert.Len(t, s.links, 1, "the premise: ann's account has no tokens left")
}

func TestSpellingsAreOneAccount(t *testing.T) {
	s := newService()
	for _, user := range []string{"ann", "Ann", " ann", "ANN ", "aNn"} {
		require.Equal(t, http.StatusUnauthorized, s.at("203.0.113.1").login(user, "wrong"))
	}
	assert.Equal(t, http.StatusTooManyRequests, s.at("203.0.113.1").login("ann", "wrong"))
	assert.Equal(t, http.StatusBadRequest, s.at("203.0.113.1").login("  ", "wrong"))
	assert.Equal(t, http.StatusBadRequest, s.at("203.0.113.1").login(strings.Repeat("a", 101), "wrong"))
}

func TestOnePasswordOnManyAccountsCostsItsAddress(t *testing.T) {
	s := newService()
	for i := range 20 {
		require.Equal(t, http.StatusUnauthorized, s.at("203.0.113.1").login(fmt.Sprint("user", i), "123456"))
	}
	s.wait(2 * time.Minute) // attempts are back, failures are not
	assert.Equal(t, http.StatusTooManyRequests, s.at("203.0.113.1").login("user21", "123456"))
}

func TestGuessesAtTheSameTimeAreCounted(t *testing.T) {
	s := newService()
	var wrong atomic.Int64
	var guesses sync.WaitGroup
	for range 50 {
		guesses.Go(func() {
			if s.at("203.0.113.1").login("ann", "wrong") == http.StatusUnauthorized {
				wrong.Add(1)
			}
		})
	}
	guesses.Wait()
	assert.LessOrEqual(t, wrong.Load(), int64(5))
	assert.Positive(t, wrong.Load())
}
