package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// changed is the defaults as JSON, with some fields of its own.
func changed(t *testing.T, fields map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(defaults)
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, json.Unmarshal(text, &all))
	for name, value := range fields {
		in := all
		if rest, ok := strings.CutPrefix(name, "second."); ok {
			in, name = all["second"].(map[string]any), rest
		}
		in[name] = value
	}
	text, err = json.Marshal(all)
	require.NoError(t, err)
	return text
}

func TestBadSettingsAreToldBesideTheirFields(t *testing.T) {
	type fields = map[string]any
	for name, c := range map[string]struct {
		given fields
		told  map[string]string // field → a part of its message
	}{
		"no capacity":            {fields{"capacity": 0}, fieldErrors{"capacity": "got 0"}},
		"negative capacity":      {fields{"capacity": -1}, fieldErrors{"capacity": "got -1"}},
		"half a token":           {fields{"capacity": 1.5}, fieldErrors{"capacity": "whole number"}},
		"a word":                 {fields{"capacity": "ten"}, fieldErrors{"capacity": `got "ten"`}},
		"nothing":                {fields{"rate": ""}, fieldErrors{"rate": "must be a number of tokens, and is empty"}},
		"null":                   {fields{"rate": nil}, fieldErrors{"rate": "got null"}},
		"no refill":              {fields{"rate": 0}, fieldErrors{"rate": "above 0"}},
		"no interval":            {fields{"interval_ms": 0}, fieldErrors{"interval_ms": "got 0"}},
		"interval of an age":     {fields{"interval_ms": 1e300}, fieldErrors{"interval_ms": "must be from 1 ms to a year"}},
		"never full":             {fields{"capacity": 1_000_000_000, "rate": 0.000001}, fieldErrors{"rate": "too slow"}},
		"rate that overflows":    {fields{"rate": 1e308}, fieldErrors{"rate": "at most"}},
		"rate of no number":      {fields{"rate": "1e309"}, fieldErrors{"rate": "must be a number"}},
		"unit of no ASCII":       {fields{"second.on": true, "second.unit": "Ä"}, fieldErrors{"second.unit": "ASCII"}},
		"negative units":         {fields{"second.on": true, "second.unit": "tokens", "second.cost": -1}, fieldErrors{"second.cost": "got -1"}},
		"unknown mode":           {fields{"mode": "often"}, fieldErrors{"mode": `got "often"`}},
		"unknown headers":        {fields{"headers": "all"}, fieldErrors{"headers": `got "all"`}},
		"unknown key":            {fields{"key": "planet"}, fieldErrors{"key": `got "planet"`}},
		"negative cost":          {fields{"cost": -1}, fieldErrors{"cost": "got -1"}},
		"second limit":           {fields{"second.on": true, "second.capacity": 0}, fieldErrors{"second.capacity": "got 0"}},
		"second limit is off":    {fields{"second.capacity": 0}, nil},
		"second is a number":     {fields{"second": 2}, fieldErrors{"second": "object"}},
		"a long word is cut off": {fields{"mode": strings.Repeat("x", 1000)}, fieldErrors{"mode": "x…"}},
		"all at once": {
			fields{"capacity": 0, "rate": "lots", "mode": "often", "cost": -1, "second.on": true, "second.rate": -2},
			fieldErrors{"capacity": "got 0", "rate": "lots", "mode": "often", "cost": "got -1", "second.rate": "got -2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSettings(changed(t, c.given))
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
			}
		})
	}
	for _, body := range []string{"", "[]", "null x", "7"} {
		_, err := parseSettings([]byte(body))
		require.ErrorContains(t, err, "JSON object", "body %q", body)
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte(`{"capacity":10,"rate":1,"interval_ms":1000,"mode":"continuous","cost":1,"second":{"on":false},"headers":"default","key":"client"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := parseSettings(body)
		if err != nil {
			return
		}
		again, err := json.Marshal(s)
		require.NoError(t, err)
		s2, err := parseSettings(again)
		require.NoError(t, err, "settings in force must be acceptable again")
		require.Equal(t, s, s2)
	})
}
