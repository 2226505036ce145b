//go:build !js

package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadSettingsAreToldBesideTheirFields(t *testing.T) {
	for name, c := range map[string]struct {
		given fields
		told  map[string]string // field → a part of its message
	}{
		"nothing changes":     {fields{}, nil},
		"one field":           {fields{"capacity": 7}, nil},
		"no capacity":         {fields{"capacity": 0}, fieldErrors{"capacity": "got 0"}},
		"negative capacity":   {fields{"capacity": -1}, fieldErrors{"capacity": "got -1"}},
		"half a token":        {fields{"capacity": 1.5}, fieldErrors{"capacity": "must be a whole number: got 1.5"}},
		"a word":              {fields{"capacity": "ten"}, fieldErrors{"capacity": "must be a whole number"}},
		"no refill":           {fields{"rate": 0}, fieldErrors{"rate": "above 0"}},
		"no interval":         {fields{"interval_ms": 0}, fieldErrors{"interval_ms": "got 0"}},
		"interval of an age":  {fields{"interval_ms": 1e300}, fieldErrors{"interval_ms": "must be 1 ms to 365 days"}},
		"never full":          {fields{"capacity": 1_000_000_000, "rate": 0.000001}, fieldErrors{"rate": "too slow"}},
		"rate that overflows": {fields{"rate": 1e308}, fieldErrors{"rate": "at most"}},
		"unit of no ASCII":    {fields{"second": fields{"on": true, "unit": "Ä"}}, fieldErrors{"second.unit": "ASCII"}},
		"negative units":      {fields{"second": fields{"on": true, "unit": "tokens", "cost": -1}}, fieldErrors{"second.cost": "got -1"}},
		"unknown mode":        {fields{"mode": "often"}, fieldErrors{"mode": `got "often"`}},
		"unknown headers":     {fields{"headers": "all"}, fieldErrors{"headers": `got "all"`}},
		"unknown key":         {fields{"key": "planet"}, fieldErrors{"key": `got "planet"`}},
		"unknown field":       {fields{"kee": "user"}, fieldErrors{"": `unknown field "kee"`}},
		"negative cost":       {fields{"cost": -1}, fieldErrors{"cost": "got -1"}},
		"too many slots":      {fields{"slots": 101}, fieldErrors{"slots": "0 to 100"}},
		"a plan of nothing":   {fields{"plan": 0}, fieldErrors{"plan": "1 to 100"}},
		"second limit":        {fields{"second": fields{"on": true, "capacity": 0}}, fieldErrors{"second.capacity": "got 0"}},
		"second limit is off": {fields{"second": fields{"capacity": 0}}, nil},
		"second is a number":  {fields{"second": 2}, fieldErrors{"second": "must be"}},
		"a long word":         {fields{"mode": strings.Repeat("x", 1000)}, fieldErrors{"mode": "x…"}},
		"all at once":         {fields{"mode": "often", "cost": -1, "slots": -1}, fieldErrors{"mode": "often", "cost": "got -1", "slots": "got -1"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(c.given)
			require.NoError(t, err)
			_, err = defaults.with(text)
			if c.told == nil {
				require.NoError(t, err)
				return
			}
			got, ok := err.(fieldErrors)
			require.True(t, ok, "an error of another kind: %v", err)
			require.ElementsMatch(t, slices.Collect(maps.Keys(c.told)), slices.Collect(maps.Keys(got)), "got %v", got)
			for field, part := range c.told {
				require.Contains(t, got[field], part, "message of %s", field)
				require.Less(t, len(got[field]), 200, "message of %s", field)
				require.NotRegexp(t, "string|float|int64|bool|number [0-9]", got[field], "a word of Go's")
			}
		})
	}
	for _, body := range []string{"", "[]", "null x", "7", "{} {}"} {
		_, err := defaults.with([]byte(body))
		require.Error(t, err, "body %q", body)
	}
	d := start(t, inProcess("test"))
	text := asks(t, d, http.StatusUnprocessableEntity, http.MethodPost, "/api/settings/drain", fields{"capacity": 0, "rate": 7})
	require.Contains(t, text, `"capacity":`)
	require.Equal(t, defaults, d.chapter("drain").settings, "bad settings change nothing")
	asks(t, d, http.StatusRequestEntityTooLarge, http.MethodPost, "/api/settings/drain", strings.Repeat("x", 1<<17))
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"capacity":10,"rate":1,"interval_ms":1000,"mode":"continuous","cost":1,"second":{"on":false},"headers":"default","key":"client"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := defaults.with(body)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		s2, err := defaults.with(again)
		require.NoError(t, err, "settings in force must be acceptable again")
		require.Equal(t, s, s2)
	})
}
