package session_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/samplelog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/session"
)

func sample(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, samplelog.Write(&b))
	return b.String()
}

func going(int64) error { return nil }

// A log that was read is replayed through one limit after the other. A slider's
// rate or burst replaces that of the text.
func TestOneLogManyLimits(t *testing.T) {
	s, err := session.Read("access.log", strings.NewReader(sample(t)), session.Options{}, going)
	require.NoError(t, err)
	assert.Positive(t, s.Clients())
	assert.Greater(t, s.Requests(), int64(s.Clients()), "clients send several requests each")
	for _, c := range []struct {
		try   session.Try
		limit string
		none  bool
	}{
		{session.Try{Limit: "60/min burst 20"}, "60/min burst 20", false},
		{session.Try{Limit: "60/min burst 20", Burst: 1000}, "60/min burst 1000", true},
		{session.Try{Limit: "60/min", Rate: 0.5, Burst: 3}, "0.5/min burst 3", false},
		{session.Try{Limit: "60/min burst 20"}, "60/min burst 20", false},
	} {
		decided := 0
		r, err := s.Decide(t.Context(), c.try, func(n int) { decided += n })
		require.NoError(t, err)
		assert.EqualValues(t, s.Requests(), decided)
		shown, err := r.Shown()
		require.NoError(t, err)
		assert.Equal(t, c.limit, shown.Limit)
		assert.Equal(t, c.none, strings.Contains(shown.Lead, "denies none"), shown.Lead)
		assert.Contains(t, shown.Report, "The search for the smallest changes is under way.")
		assert.NotContains(t, shown.Report, " style=", "pages whose policy forbids inline styles show it")
		require.NoError(t, r.Search(t.Context()))
		shown, err = r.Shown()
		require.NoError(t, err)
		assert.NotContains(t, shown.Report, "under way")
	}
}

// A replay ends when the page no longer wants it, and the log stays.
func TestReplaysEnd(t *testing.T) {
	s, err := session.Read("access.log", strings.NewReader(strings.Repeat(sample(t), 20)), session.Options{}, going)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = s.Decide(ctx, session.Try{Limit: "6/min"}, func(int) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	r, err := s.Decide(t.Context(), session.Try{Limit: "6/min"}, func(int) {})
	require.NoError(t, err)
	require.ErrorIs(t, r.Search(ctx), context.Canceled)

	enough := errors.New("enough")
	_, err = session.Read("access.log", strings.NewReader(strings.Repeat(sample(t), 20)), session.Options{}, func(int64) error { return enough })
	assert.Equal(t, enough, err)
}

// What is wrong with an option says which flag of the command it is.
func TestMistakesNameTheFlag(t *testing.T) {
	for _, c := range []struct {
		o    session.Options
		want string
	}{
		{session.Options{Zone: "berlin"}, `-zone "berlin" is not a time zone such as Europe/Berlin: did you mean Europe/Berlin?`},
		{session.Options{Key: "cookies:id"}, `-key "cookies:id"`},
		{session.Options{Format: "xml"}, `-format "xml" must be`},
		{session.Options{Only: "path"}, `-only "path" must be FIELD=PATTERN`},
		{session.Options{Skip: "path=*"}, "no line is a request; -only and -skip left out 1,349 lines"},
		{session.Options{Key: "header:x=y"}, "access.log:1: ratelimit: the request has no key"},
	} {
		_, err := session.Read("access.log", strings.NewReader(sample(t)), c.o, going)
		assert.ErrorContains(t, err, c.want)
	}
	s, err := session.Read("access.log", strings.NewReader(sample(t)), session.Options{}, going)
	require.NoError(t, err)
	for limit, want := range map[string]string{"60/mn": `"mn" must be a time`, "5 at once": "counts requests under way", "x10": "RL121", "10 tokens/min": "counts tokens, and no field has them"} {
		_, err := s.Decide(t.Context(), session.Try{Limit: limit}, func(int) {})
		assert.ErrorContains(t, err, want)
	}
}
