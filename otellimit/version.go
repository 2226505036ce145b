package otellimit

import "runtime/debug"

const module = "github.com/tokenbucket-go/ratelimit"

// unknown is the version if the build information has none.
const unknown = "(devel)"

// version returns the version of this module in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return versionIn(info)
}

// versionIn returns the version of this module in info.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return unknown
}
