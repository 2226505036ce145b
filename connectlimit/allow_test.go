package connectlimit_test

import (
	"context"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
)

// Handlers ask while others of their goroutines do, or send messages. The race
// detector judges.
func TestAllowInSeveralGoroutines(t *testing.T) {
	tenants := perHour("tenants", 100_000)
	ask := func(ctx context.Context) {
		var goroutines sync.WaitGroup
		for range 20 {
			goroutines.Go(func() {
				_, err := connectlimit.Allow(ctx, tenants, "tenant")
				assert.NoError(t, err)
			})
		}
		goroutines.Wait()
	}
	h := handlers{
		once: func(ctx context.Context, in *request) (*response, error) {
			ask(ctx)
			return connect.NewResponse(in.Msg), nil
		},
		talk: func(ctx context.Context, s *bidi) error {
			done := make(chan struct{})
			go func() { defer close(done); ask(ctx) }()
			err := echo(ctx, s)
			<-done
			return err
		},
	}
	speak(t, serve(t, h, connectlimit.New(perHour("calls", 100_000), all)), func(t *testing.T, s server) {
		for range 10 {
			require.NoError(t, s.call(t, "").err)
			cs := s.open(t, "")
			require.NoError(t, say(cs))
			require.NoError(t, closed(cs))
		}
	})
}
