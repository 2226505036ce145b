// A WebSocket whose messages are limited one by one. Middleware sees only the handshake, so the handler
// takes a token for each message. If a client sends too fast, the server says how long to wait. If the
// client does not wait, the server disconnects it. Try:
//
//	cd examples/extra/websocket
//	go run .                        # buckets in this process
//	go run . -redis localhost:6379  # buckets shared through Redis: other replicas count the same messages
//
//	go run . -dial ws://localhost:8080/ws           # a client that waits
//	go run . -dial ws://localhost:8080/ws -rude     # a client that does not wait: it is disconnected
//	for i in $(seq 11); do curl -si localhost:8080/ws | head -1; done  # each handshake takes a token: 426, because curl speaks no WebSocket, then 429
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	dial := flag.String("dial", "", "URL of a server: be its client instead")
	rude := flag.Bool("rude", false, "as a client, don't wait")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}
	if *dial != "" {
		if err := talk(context.Background(), *dial, *rude); err != nil {
			log.Fatal(err)
		}
		return
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("websocket-example:"))
	}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(http.ListenAndServe(*addr, newRouter(store)))
}

func newRouter(store core.Store) http.Handler {
	handshakes := core.Must(core.NewLimiter(store, core.Policy{
		Name: "handshakes", Limits: []core.Limit{core.PerMinute(10)},
	}))
	room := &room{
		key: chilimit.ByIP(), // or the user who logged in; all connections of a client share its buckets
		messages: core.Must(core.NewLimiter(store, core.Policy{
			Name: "messages", Limits: []core.Limit{core.PerSecond(2).WithBurst(5)},
		})),
		// A second bucket counts the messages of clients that don't wait. It refills with time, and
		// outlasts a reconnect.
		abuse: core.Must(core.NewLimiter(store, core.Policy{
			Name: "abuse", Limits: []core.Limit{core.PerMinute(5)},
		})),
	}
	r := chi.NewRouter()
	r.With(chilimit.New(handshakes, room.key)).Get("/ws", room.serve)
	return r
}

type room struct {
	key             chilimit.KeyFunc
	messages, abuse *core.Limiter
}

// reply is what the server sends for every message.
type reply struct {
	Echo         string `json:"echo,omitempty"`
	Remaining    int64  `json:"remaining"`
	Error        string `json:"error,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // don't send before it has passed
}

const (
	maxMessage = 4 << 10         // bytes
	idle       = 5 * time.Minute // without a message
	sendWithin = 5 * time.Second
)

func (s *room) serve(w http.ResponseWriter, r *http.Request) {
	key, err := s.key(r)
	if err != nil {
		http.Error(w, "no key", http.StatusBadRequest)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxMessage)
	// The request's context does not end with a hijacked connection, so use Background.
	warned := false // by the last answer
	for {
		message, err := read(context.Background(), conn)
		if err != nil {
			return // closed, idle or too large
		}
		answer, err := s.decide(context.Background(), key, message, warned)
		if closing, ok := errors.AsType[websocket.CloseError](err); ok {
			conn.Close(closing.Code, closing.Reason)
			return
		}
		warned = answer.Error != ""
		if err := write(context.Background(), conn, answer); err != nil {
			return
		}
	}
}

// decide takes a token for the message. A client may be denied once; if it goes on without waiting, it is
// disconnected. To slow a client down instead of denying its messages, call s.messages.Wait here: meanwhile
// the server reads nothing, so TCP slows the client down.
func (s *room) decide(ctx context.Context, key, message string, warned bool) (reply, error) {
	res, err := s.messages.Allow(ctx, key)
	if err != nil {
		return reply{}, websocket.CloseError{Code: websocket.StatusTryAgainLater, Reason: "unavailable"}
	}
	if res.Allowed {
		return reply{Echo: message, Remaining: res.Remaining}, nil
	}
	if warned {
		abuse, err := s.abuse.Allow(ctx, key)
		if err == nil && !abuse.Allowed {
			return reply{}, websocket.CloseError{
				Code:   websocket.StatusPolicyViolation,
				Reason: fmt.Sprintf("too many messages; retry in %d ms", milliseconds(abuse.RetryAfter)),
			}
		}
	}
	return reply{Error: "too many messages", RetryAfterMS: milliseconds(res.RetryAfter)}, nil
}

// milliseconds rounds up: a client that comes back early is denied again.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func read(ctx context.Context, conn *websocket.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, idle)
	defer cancel()
	_, message, err := conn.Read(ctx)
	return string(message), err
}

// write returns an error if the client does not read its answers in time.
func write(ctx context.Context, conn *websocket.Conn, answer reply) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	return wsjson.Write(ctx, conn, answer)
}

// talk is a client: it sends 20 messages, and sends each denied message again.
func talk(ctx context.Context, url string, rude bool) error {
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	for n := 1; n <= 20; {
		if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, "message %d", n)); err != nil {
			return err
		}
		var answer reply
		if err := wsjson.Read(ctx, conn, &answer); err != nil {
			return err
		}
		log.Printf("%+v", answer)
		if answer.Error == "" {
			n++
		} else if !rude {
			time.Sleep(time.Duration(answer.RetryAfterMS) * time.Millisecond)
		}
	}
	return conn.Close(websocket.StatusNormalClosure, "")
}
