package docs_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// The file of policies in limits.md makes limiters, and has every field.
func TestPoliciesOnThePageLoad(t *testing.T) {
	shown := blocks(string(read(t, "limits.md")), "yaml")[0]
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte(shown), 0o600))
	policies, err := policyfile.LoadFile(path)
	require.NoError(t, err)
	for _, policy := range policies {
		_, err := core.NewLimiter(core.NewMemoryStore(), policy)
		require.NoError(t, err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[core.Policy]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		assert.Regexp(t, `(?m)^  [ -] `+name+`: `, shown, "limits.md shows the field %s", name)
	}
}

func TestMistakesAreToldAsOnThePage(t *testing.T) {
	want := blocks(string(read(t, "limits.md")), "text")[2]
	t.Chdir(t.TempDir())
	wrong := "policies:\n  - name: search\n    limits:\n      - ten/min\n"
	require.NoError(t, os.WriteFile("policies.yaml", []byte(wrong), 0o600))
	_, err := policyfile.LoadFile("policies.yaml")
	require.EqualError(t, err, strings.TrimSpace(want))
}
