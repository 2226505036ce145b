package pictures

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var write = flag.Bool("write", false, "write the pictures into docs/pictures")

// directory holds the pictures, seen from this package.
const directory = "../../docs/pictures"

// Each picture is what the library does now.
func TestPicturesAreUpToDate(t *testing.T) {
	for name, picture := range pictures {
		t.Run(name, func(t *testing.T) {
			var drawn string
			synctest.Test(t, func(*testing.T) { drawn = picture().String() })
			path := filepath.Join(directory, name)
			if *write {
				require.NoError(t, os.WriteFile(path, []byte(drawn), 0o644))
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, []byte(drawn)) {
				t.Errorf("%s is not what the library does: run go generate ./internal/pictures and look at it (%v)", path, err)
			}
		})
	}
}
