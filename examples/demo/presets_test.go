package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPresetsAreGoodSettings(t *testing.T) {
	for _, p := range presets {
		text, err := json.Marshal(p.Settings)
		require.NoError(t, err)
		got, err := parseSettings(text)
		require.NoError(t, err, p.ID)
		require.Equal(t, p.Settings, got, p.ID)
	}
}

func TestAModelsTokensAreCountedBesideRequests(t *testing.T) {
	for _, p := range presets {
		if p.ID != "model" {
			continue
		}
		for _, f := range frameworks {
			d := serve(t)
			text, err := json.Marshal(p.Settings)
			require.NoError(t, err)
			status, body := call(t, d, "POST", "/api/settings", text)
			require.Equal(t, 200, status, body)
			status, body = call(t, d, "GET", "/"+f.name+"/limited", nil)
			require.Equal(t, 200, status, "%s: %s", f.name, body)
			limits := d.states().List[0].Limits
			require.Len(t, limits, 2)
			require.InDelta(t, 19, limits[0].Tokens, 0.9, f.name)
			require.Equal(t, "tokens", limits[1].Unit)
			require.Less(t, limits[1].Tokens, 20_000-1200+300.0, f.name)
		}
	}
}
