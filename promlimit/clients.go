package promlimit

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// clients are the metrics of clients of other services.
type clients struct {
	requests *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	waiting  *prometheus.GaugeVec
}

func newClients() clients {
	return clients{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ratelimit_client_requests_total", Help: series.ClientRequestsHelp,
		}, []string{"client", "event"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ratelimit_client_wait_seconds", Help: series.ClientWaitHelp, Buckets: series.ClientBounds,
		}, []string{"client"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ratelimit_client_waiting", Help: series.ClientWaitingHelp,
		}, []string{"client"}),
	}
}

func (c *clients) all() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.waits, c.waiting}
}

// ObserveClient counts what happens to the requests of a client. Pass it to
// [clientlimit.WithObserver], and give each client of a process a name of its
// own by [clientlimit.WithName]. Keys are in no series.
func (c *Collector) ObserveClient(_ context.Context, e clientlimit.Event) {
	if e.Kind == clientlimit.Queued {
		c.clients.waiting.WithLabelValues(e.Client).Add(float64(e.Queued))
		return
	}
	c.clients.requests.WithLabelValues(e.Client, string(e.Kind)).Inc()
	if e.Kind == clientlimit.Sent {
		c.clients.waits.WithLabelValues(e.Client).Observe(e.Wait.Seconds())
	}
}
