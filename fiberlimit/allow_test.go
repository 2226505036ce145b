package fiberlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

func TestAllowWithinAHandler(t *testing.T) {
	adaptertest.CheckAllow(t, func(limiter *core.Limiter) func(string) *http.Response {
		app := fiber.New()
		app.Get("/", func(c *fiber.Ctx) error {
			res, err := fiberlimit.Allow(c, limiter, adaptertest.LoginKey(c.Query("user")))
			if err != nil {
				return err
			}
			if c.Query("user") == "ann" {
				_ = res.Undo(c.UserContext())
			}
			return c.SendStatus(http.StatusNoContent)
		})
		return func(user string) *http.Response {
			r := httptest.NewRequest(http.MethodGet, "/?user="+user, nil)
			res, err := test(app, r)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
	})
}

// Fiber's strings are views of a buffer that the next request overwrites: a Result that is undone later must still return its
// token to the bucket that it came from.
func TestTheResultOfAllowKeepsItsKey(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "users", Limits: []core.Limit{core.PerHour(5)}}))
	app := fiber.New()
	var kept []core.Result
	app.Get("/:user", func(c *fiber.Ctx) error {
		res, err := fiberlimit.Allow(c, limiter, c.Params("user"))
		kept = append(kept, res)
		return err
	})
	for _, path := range []string{"/alice", "/mallo"} {
		if _, err := test(app, httptest.NewRequest(http.MethodGet, path, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept[0].Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]int64{"alice": 5, "mallo": 4} {
		if res, err := limiter.Peek(t.Context(), user); err != nil || res.Remaining != want {
			t.Errorf("after the first request, of alice, was undone %s has %d tokens, %v; want %d", user, res.Remaining, err, want)
		}
	}
}
