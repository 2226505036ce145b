package otellimit

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// clients are the instruments of clients of other services.
type clients struct {
	requests metric.Int64Counter
	waits    metric.Float64Histogram
	waiting  metric.Int64UpDownCounter
}

func newClients(meter metric.Meter) (c clients, err error) {
	var errs [3]error
	c.requests, errs[0] = meter.Int64Counter("ratelimit.client.requests", metric.WithUnit("{request}"), metric.WithDescription(series.ClientRequestsHelp))
	c.waits, errs[1] = meter.Float64Histogram("ratelimit.client.wait", metric.WithUnit("s"), metric.WithDescription(series.ClientWaitHelp),
		metric.WithExplicitBucketBoundaries(series.ClientBounds...))
	c.waiting, errs[2] = meter.Int64UpDownCounter("ratelimit.client.waiting", metric.WithUnit("{request}"), metric.WithDescription(series.ClientWaitingHelp))
	return c, errors.Join(errs[:]...)
}

// ObserveClient measures what happens to the requests of a client. Pass it to
// [clientlimit.WithObserver], and give each client of a process a name of its
// own by [clientlimit.WithName]. Keys are in no attribute.
func (t *Telemetry) ObserveClient(ctx context.Context, e clientlimit.Event) {
	client := attribute.String("ratelimit.client", e.Client)
	if e.Kind == clientlimit.Queued {
		t.clients.waiting.Add(ctx, int64(e.Queued), metric.WithAttributes(client))
		return
	}
	t.clients.requests.Add(ctx, 1, metric.WithAttributes(client, attribute.String("ratelimit.event", string(e.Kind))))
	if e.Kind == clientlimit.Sent {
		t.clients.waits.Record(ctx, e.Wait.Seconds(), metric.WithAttributes(client))
	}
}
