package core_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tokenbucket-go/ratelimit/core"
)

// LimitResult embeds Limit, whose text must not stand for the whole.
func TestLimitResultsAreToldWhole(t *testing.T) {
	r := core.LimitResult{Limit: core.PerMinute(60).WithBurst(20).WithName("api"), Remaining: 7, ResetAfter: 13 * time.Second}
	require.Equal(t, "60/min burst 20 name api: 7 left, full in 13s", fmt.Sprint(r))
	r.Violated, r.RetryAfter = true, time.Second
	require.Equal(t, "[60/min burst 20 name api: 7 left, full in 13s, violated for 1s]", fmt.Sprintf("%+v", []core.LimitResult{r}))
	text, err := r.MarshalText()
	require.NoError(t, err)
	require.Equal(t, r.String(), string(text))

	object, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"Name":"api","Capacity":20,"RefillRate":60,"RefillInterval":60000000000,"Mode":0,
		"Remaining":7,"Violated":true,"RetryAfter":1000000000,"ResetAfter":13000000000}`, string(object))
	var again core.LimitResult
	require.NoError(t, json.Unmarshal(object, &again))
	require.Equal(t, r, again)

	mapping, err := yaml.Marshal([]core.LimitResult{r})
	require.NoError(t, err)
	require.YAMLEq(t, `[{name: api, capacity: 20, refillrate: 60, refillinterval: 1m0s, mode: 0,
		remaining: 7, violated: true, retryafter: 1s, resetafter: 13s}]`, string(mapping))
	var list []core.LimitResult
	require.NoError(t, yaml.Unmarshal(mapping, &list))
	require.Equal(t, []core.LimitResult{r}, list)

	r.RetryAfter = core.Never
	require.Contains(t, r.String(), "violated for good")
}
