package migration

import (
	"net/http"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
)

// TollboothBefore limits each client, on each path, to 5 POST requests a second and bursts of 20.
func TollboothBefore(handler http.Handler) http.Handler {
	lmt := tollbooth.NewLimiter(5, &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}).
		SetBurst(20).
		SetIPLookup(limiter.IPLookup{Name: "X-Forwarded-For", IndexFromRight: 0}).
		SetMethods([]string{"POST"}).
		SetMessage("slow down")
	return tollbooth.HTTPMiddleware(lmt)(handler)
}
