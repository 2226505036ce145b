package fiberlimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// fiber reads the whole body of an upload before the limiter denies it, unless
// StreamRequestBody is set: then only BodyLimit of it.
func TestADeniedUploadIsReadUnlessBodiesAreStreamed(t *testing.T) {
	bodyLimit := map[bool]int{true: 1 << 10, false: 4 << 20} // of which streaming reads so much before the limiter
	for _, streams := range []bool{false, true} {
		t.Run("StreamRequestBody "+strconv.FormatBool(streams), func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "uploads", Limits: []core.Limit{core.PerDay(1)}}))
			core.Must(limiter.Allow(t.Context(), "all"))
			var asked atomic.Bool
			app := fiber.New(fiber.Config{StreamRequestBody: streams, BodyLimit: bodyLimit[streams], DisableStartupMessage: true})
			app.Post("/", fiberlimit.New(limiter, func(*fiber.Ctx) (string, error) {
				asked.Store(true)
				return "all", nil
			}))
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = app.Listener(l) }()
			defer func() { _ = app.Shutdown() }()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			const size = 1 << 20
			send := func(body string) {
				if _, err := io.WriteString(conn, body); err != nil {
					t.Fatal(err)
				}
			}
			send("POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n" + strings.Repeat("x", 8<<10))
			if !streams {
				send(strings.Repeat("x", size-8<<10-1))
				if asked.Load() {
					t.Error("the limiter was asked before the last byte: the page says otherwise")
				}
				send("x")
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("status %d, want 429", resp.StatusCode)
			}
		})
	}
}
