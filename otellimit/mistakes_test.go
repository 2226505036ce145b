package otellimit_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/tokenbucket-go/ratelimit/otellimit"
)

func TestNewFailsWithAllMistakes(t *testing.T) {
	_, err := otellimit.New(otellimit.WithMeterProvider(nil), otellimit.WithEventLog(nil), otellimit.WithMaxSeries(0), otellimit.WithRedisStore("a", nil),
		otellimit.WithRedisStore("main", busy{}), otellimit.WithRedisStore("main", busy{}))
	for _, want := range []string{
		"WithMeterProvider: <nil> must be a MeterProvider", "WithEventLog: <nil> must be a Logger", "WithMaxSeries: 0 must be at least 1", `WithRedisStore: "a" has no store`,
		`WithRedisStore: "main" must be a name that no other store has`,
	} {
		assert.ErrorContains(t, err, "otellimit."+want)
	}

	for _, refused := range []string{"ratelimit.decisions", "ratelimit.decision.duration", "ratelimit.redis.calls", "ratelimit.breaker.state", "ratelimit.fallback", "callback"} {
		_, err = otellimit.New(otellimit.WithMeterProvider(refusing{name: refused}), otellimit.WithRedisStore("main", busy{}))
		assert.ErrorIs(t, err, errRefused, refused)
		assert.ErrorContains(t, err, "otellimit: ")
	}
}

var errRefused = errors.New("refused")

// refusing creates all instruments but one.
type refusing struct {
	noop.MeterProvider

	name string
}

func (r refusing) Meter(string, ...metric.MeterOption) metric.Meter {
	return refusingMeter{name: r.name}
}

type refusingMeter struct {
	noop.Meter

	name string
}

func (m refusingMeter) err(name string) error {
	if name == m.name {
		return errRefused
	}
	return nil
}

func (m refusingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, m.err(name)
}

func (m refusingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.err(name)
}

func (m refusingMeter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return noop.Int64ObservableCounter{}, m.err(name)
}

func (m refusingMeter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return noop.Int64ObservableGauge{}, m.err(name)
}

func (m refusingMeter) Float64ObservableCounter(name string, _ ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	return noop.Float64ObservableCounter{}, m.err(name)
}

func (m refusingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, m.err("callback")
}
