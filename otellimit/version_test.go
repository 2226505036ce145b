package otellimit

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionIsThatOfTheModule(t *testing.T) {
	other := &debug.Module{Path: "example.com/other", Version: "v9.9.9"}
	for rule, c := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"a dependency":          {debug.BuildInfo{Main: *other, Deps: []*debug.Module{other, {Path: module, Version: "v1.2.3"}}}, "v1.2.3"},
		"replaced by a version": {debug.BuildInfo{Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: module, Version: "v1.2.4"}}}}, "v1.2.4"},
		"replaced by a clone":   {debug.BuildInfo{Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../ratelimit"}}}}, unknown},
		"the program itself":    {debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}, "v1.2.3"},
		"missing":               {debug.BuildInfo{Main: *other}, unknown},
	} {
		assert.Equal(t, c.want, versionIn(&c.info), rule)
	}
	assert.NotEmpty(t, version())
}
