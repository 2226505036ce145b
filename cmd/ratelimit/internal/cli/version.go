package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// runVersion prints the version of the program's module, or the commit that it
// was built from, and what it was built by and for.
func (t Table) runVersion(s Streams, args []string) error {
	if len(args) > 0 {
		return Misuse("version takes nothing (see %s help version)", t.Name)
	}
	version := "of an unknown version"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(s.Out, "%s %s, %s %s/%s\n", t.Name, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
