package grpclimit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/grpclimit"
)

// A service that limits each method by API key, and streams by address, as apps
// write it.
func TestAServiceWithLimitsOfCallsAndStreams(t *testing.T) {
	key := grpclimit.Join(grpclimit.ByMethod(), byKey)
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.Unary(perHour("calls", 2), key)},
		[]grpc.StreamServerInterceptor{grpclimit.Stream(perHour("streams", 1), grpclimit.ByPeer())})
	ctx := within(t)
	first := call(as(ctx, "a"), conn)
	require.NoError(t, first.err)
	assert.Equal(t, []string{`"calls";q=2;w=3600`}, first.header.Get("ratelimit-policy"))
	require.NoError(t, call(as(ctx, "a"), conn).err)
	third := call(as(ctx, "a"), conn).err
	assert.Equal(t, codes.ResourceExhausted, status.Code(third))
	retry, limits := details(third)
	wait := retry.GetRetryDelay().AsDuration()
	assert.True(t, wait > 20*time.Minute && wait <= 30*time.Minute, "half an hour for a token: %v", wait)
	assert.Equal(t, []string{"calls"}, limits)
	assert.NoError(t, call(as(ctx, "b"), conn).err, "another key")
	assert.Equal(t, codes.InvalidArgument, status.Code(call(ctx, conn).err), "no key")
	assert.NoError(t, say(open(ctx, t, conn)), "a stream")
	assert.Equal(t, codes.ResourceExhausted, status.Code(say(open(ctx, t, conn))), "another one")
}
