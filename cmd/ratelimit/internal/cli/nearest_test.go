package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

func TestNearestNames(t *testing.T) {
	names := []string{"copy", "diff", "exceptions", "policies", "policy-check", "top", "topography"}
	for word, want := range map[string]string{
		"dif": "diff", "difff": "diff", "cpoy": "copy",
		"exc": "exceptions", "diff-policies": "diff", // shares only a prefix
		"poli": "", "p": "", "": "", "xyz": "", "topog": "", // several, too short, none
	} {
		assert.Equal(t, want, cli.Nearest(word, names), word)
	}
}
