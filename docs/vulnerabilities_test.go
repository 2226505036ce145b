package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A floor of go.mod with a vulnerability that a newer version has fixed fails
// the script, called or not. One that nobody has fixed, and is not called, does
// not; neither does one of Go's own library. govulncheck itself succeeds in all
// three, and here another program stands for it.
func TestVulnerabilitiesFailsForFloorsThatANewerVersionMends(t *testing.T) {
	for _, test := range []struct {
		fixed  string
		passes bool
	}{
		{"Fixed in: example.com/floor@v1.2.4", false},
		{"Fixed in: N/A", true},
		{"Fixed in: net/http@go1.99.1", true},
	} {
		bin := t.TempDir()
		said := "#!/bin/sh\ncat <<'E'\n=== Symbol Results ===\n\nNo vulnerabilities found.\n\n=== Module Results ===\n\n" +
			"Vulnerability #1: GO-2099-0001\n  Module: example.com/floor\n    Found in: example.com/floor@v1.2.3\n    " + test.fixed + "\nE\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(said), 0o700))
		script := exec.Command("../scripts/vulnerabilities")
		script.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOVULNDB=file://"+bin)
		out, err := script.CombinedOutput()
		if test.passes {
			require.NoError(t, err, "%s: %s", test.fixed, out)
			continue
		}
		require.Error(t, err, test.fixed)
		require.Contains(t, string(out), "grpclimit/go.mod: raise what it requires: "+test.fixed)
	}
}
