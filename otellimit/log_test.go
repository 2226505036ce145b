package otellimit_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

// records keeps log records with the spans of their contexts, as a bridge to
// OpenTelemetry's logs reads both.
type records struct {
	slog.Handler

	got []slog.Record
	of  []trace.SpanContext
}

func (r *records) Handle(ctx context.Context, record slog.Record) error {
	r.got, r.of = append(r.got, record), append(r.of, trace.SpanContextFromContext(ctx))
	return nil
}

func TestEventsBecomeLogRecordsOfTheirSpan(t *testing.T) {
	log := &records{Handler: slog.Default().Handler()}
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1).WithName("few")}}
	s := serve(t, core.NewMemoryStore(), policy, otellimit.WithEventLog(slog.New(log)))
	for i, outcome := range []string{"allowed", "denied"} {
		_, span := s.get(t, "ann")
		assert.Empty(t, span.Events, "%s: the event is no event of the span", outcome)
		require.Len(t, log.got, i+1)
		record := log.got[i]
		assert.Equal(t, "ratelimit.decision", record.Message)
		assert.Equal(t, slog.LevelInfo, record.Level)
		assert.Equal(t, span.SpanContext.SpanID(), log.of[i].SpanID(), "the record's context has the span")
		assert.Equal(t, span.SpanContext.TraceID(), log.of[i].TraceID())
		got := map[string]any{}
		record.Attrs(func(a slog.Attr) bool { got[a.Key] = a.Value.Any(); return true })
		assert.Equal(t, map[string]any{
			"ratelimit.policy": "api", "ratelimit.limit": "few", "ratelimit.outcome": outcome, "ratelimit.source": "store", "ratelimit.cost": int64(1),
		}, got)
		if outcome == "denied" {
			assert.Contains(t, span.Attributes, attribute.String("ratelimit.outcome", "denied"), "the span's attributes stay")
		}
	}
}

func TestWithoutARecordedSpanNoEventIsLogged(t *testing.T) {
	log := &records{Handler: slog.Default().Handler()}
	telemetry, err := otellimit.New(otellimit.WithEventLog(slog.New(log)))
	require.NoError(t, err)
	telemetry.Observe(context.Background(), core.Observation{Policy: "api", Cost: 1})
	assert.Empty(t, log.got)
}
