package docs_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPoliciesShownAreTheExample: what language-models.md shows is what the example runs with.
func TestPoliciesShownAreTheExample(t *testing.T) {
	page, err := os.ReadFile("language-models.md")
	require.NoError(t, err)
	file, err := os.ReadFile("../examples/llm/policies.yaml")
	require.NoError(t, err)
	require.Contains(t, string(page), "```yaml\n"+string(file)+"```\n", "copy examples/llm/policies.yaml into language-models.md")
}
