package echolimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// A hijacked connection, such as a WebSocket's, counts as 200 however its
// handler ends: nobody gets the 500 of the error that the handler returns when
// the client goes. Otherwise clients who hang up would get back what they took.
func TestHijackedConnectionCountsAs200(t *testing.T) {
	for name, end := range map[string]func() error{
		"no error": func() error { return nil },
		"an error": func() error { return errors.New("the client has gone") },
		"a panic":  func() error { panic(http.ErrAbortHandler) },
	} {
		reported := make(chan int, 10)
		for option, with := range map[string]echolimit.Option{
			"WithRefund": echolimit.WithRefund(func(_ echo.Context, status int) bool { reported <- status; return false }),
			"WithSettle": echolimit.WithSettle(func(_ echo.Context, status int) core.Units { reported <- status; return nil }),
		} {
			t.Run(option+", "+name, func(t *testing.T) {
				limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
				e := echo.New()
				silence(e)
				e.GET("/", func(c echo.Context) error {
					conn, _, err := http.NewResponseController(c.Response()).Hijack()
					if err != nil {
						return err
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
					_ = conn.Close()
					return end()
				}, echolimit.New(limiter, echolimit.Global("all"), with))
				server := httptest.NewServer(e)
				defer server.Close()
				res, err := http.Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != http.StatusSwitchingProtocols {
					t.Fatalf("answered %d, want 101", res.StatusCode)
				}
				select {
				case status := <-reported:
					if status != http.StatusOK {
						t.Errorf("%s was called with %d, want 200", option, status)
					}
				case <-time.After(time.Minute):
					t.Errorf("%s was not called", option)
				}
			})
		}
	}
}
