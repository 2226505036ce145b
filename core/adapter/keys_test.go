package adapter_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// Two users must not share a bucket because their numbers are one float.
func TestAFloatThatDoesNotIdentifyAnybodyIsAnError(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100)}}))
	type user struct{}
	for value, want := range map[any]int{
		1 << 52: 200, float64(1<<53 - 1): 200, -7.0: 200, math.Copysign(0, -1): 200, float32(1<<24 - 1): 200,
		float64(1 << 53): 500, -float64(1 << 53): 500, 1e300: 500, 7.5: 500, math.Inf(1): 500, math.NaN(): 500, float32(1 << 24): 500,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), user{}, value))
		w := httptest.NewRecorder()
		httplimit.New(limiter, httplimit.ByContextValue(user{}))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("the value %v (%T) was answered %d, want %d", value, value, w.Code, want)
		}
	}
}
