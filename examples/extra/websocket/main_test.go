package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/tokenbucket-go/ratelimit/core"
)

type server struct {
	url string
	mu  sync.Mutex
	now time.Time
}

func newServer(t *testing.T) *server {
	s := &server{now: time.Unix(1_800_000_000, 0)}
	web := httptest.NewServer(newRouter(core.NewMemoryStore(core.WithClock(func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}))))
	t.Cleanup(web.Close)
	s.url = web.URL + "/ws"
	return s
}

func (s *server) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *server) dial(t *testing.T) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func send(t *testing.T, conn *websocket.Conn, message string) (answer reply, err error) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	err = wsjson.Read(t.Context(), conn, &answer)
	return answer, err
}

func want(t *testing.T, conn *websocket.Conn, want reply) {
	t.Helper()
	if got, err := send(t, conn, "hi"); err != nil || got != want {
		t.Errorf("answer %+v, %v, want %+v", got, err, want)
	}
}

func TestEachMessageCostsAToken(t *testing.T) {
	s := newServer(t)
	a, b := s.dial(t), s.dial(t) // one client
	for left := int64(4); left >= 0; left-- {
		conn := a
		if left%2 == 0 {
			conn = b
		}
		want(t, conn, reply{Echo: "hi", Remaining: left})
	}
	want(t, a, reply{Error: "too many messages", RetryAfterMS: 500})
	s.advance(499 * time.Millisecond)
	want(t, b, reply{Error: "too many messages", RetryAfterMS: 1})
	s.advance(time.Millisecond) // as long as it was told
	want(t, a, reply{Echo: "hi"})
}

func TestRepeatedAbuseCloses(t *testing.T) {
	s := newServer(t)
	conn := s.dial(t)
	for range 11 { // 5 that pass, a warning, and 5 that don't heed it
		if _, err := send(t, conn, "hi"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := send(t, conn, "hi")
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), "retry in 12000 ms") {
		t.Errorf("%v, want a policy violation that tells the wait", err)
	}

	again := s.dial(t) // a reconnect is no pardon
	want(t, again, reply{Error: "too many messages", RetryAfterMS: 500})
	if _, err := send(t, again, "hi"); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("after a reconnect: %v, want a policy violation", err)
	}
	s.advance(12 * time.Second)
	want(t, s.dial(t), reply{Echo: "hi", Remaining: 4})
}

func TestAPatientClientStays(t *testing.T) {
	s := newServer(t)
	conn := s.dial(t)
	for range 30 {
		answer, err := send(t, conn, "hi")
		if err != nil {
			t.Fatalf("closed although it waited: %v", err)
		}
		s.advance(time.Duration(answer.RetryAfterMS) * time.Millisecond)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	conn := newServer(t).dial(t)
	if _, err := send(t, conn, strings.Repeat("x", maxMessage+1)); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("%v, want message too big", err)
	}
}

func TestHandshakesAreLimited(t *testing.T) {
	s := newServer(t)
	for range 10 {
		s.dial(t)
	}
	_, resp, err := websocket.Dial(t.Context(), s.url, nil)
	if err == nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "6" {
		t.Errorf("the eleventh handshake: %v, want 429 and Retry-After 6", err)
	}
}
