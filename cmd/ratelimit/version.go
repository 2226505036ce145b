package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// versionResult is what version prints.
type versionResult struct {
	Version  string `json:"version"`  // of the module, or the commit that it was built from
	Go       string `json:"go"`       // the version of Go that built it
	Platform string `json:"platform"` // that it was built for, such as linux/amd64
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printResult(cmd, &versionResult{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
		},
	}
}

func (v *versionResult) Text(w *show.Writer) {
	w.Line("ratelimit %s, %s %s", v.Version, v.Go, v.Platform)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "of an unknown version"
}
