package mistake_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// Messages must not show what can be secret, and must still show which field is
// wrong.
func TestHiddenLeavesTheFieldWithoutTheKey(t *testing.T) {
	for field, want := range map[string]string{
		"Policy.Limits[1].Capacity":                       "Policy.Limits[1].Capacity",
		"Policy.Overrides":                                "Policy.Overrides",
		"Policy.Overrides.x-api-key:k[0].Capacity":        "Policy.Overrides.x-api-key:…[0].Capacity",
		"policies[0].overrides.ip:192.0.2.1[12].capacity": "policies[0].overrides.ip:…[12].capacity",
		"Policy.Overrides.user:ann":                       "Policy.Overrides.user:…",
		"Policy.Overrides.ann[3]":                         "Policy.Overrides.…[3]",
		"Policy.Overrides.":                               "Policy.Overrides.…",
		"Policy.Overrides.a[secret][0].Name":              "Policy.Overrides.…[0].Name",
		"Policy.Overrides.a[secret]":                      "Policy.Overrides.…",
		"Policy.Overrides.a[0].secret.word":               "Policy.Overrides.…",
		"Policy.Overrides.user:overrides.secret[0].Mode":  "Policy.Overrides.user:…[0].Mode",
		"policyfile.Reload limiters[1]":                   "policyfile.Reload limiters[1]",
		"policies[0].overrides.authorization:basic b[0]":  "policies[0].overrides.authorization:…[0]",
		"Policy.Overrides.route:/x|x-api-key:k":           "Policy.Overrides.route:…",
		"Policy.Overrides.secret|x-api-key:k[0].Mode":     "Policy.Overrides.…[0].Mode",
		"Policy.Overrides.%=secret%7Cx|ip:192.0.2.1":      "Policy.Overrides.…",
	} {
		assert.Equal(t, want, mistake.Hidden(field), field)
	}
}
