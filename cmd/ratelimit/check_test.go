package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	goodPolicies = "- {name: api, limits: [60/min]}\n- {name: login, limits: [5/15min]}\n"
	badPolicies  = "- name: api\n  limits: [ten/min, 5/x]\n- name: api\n  limits: [1/s]\n"
)

func TestCheckPrintsEveryMistakeWithItsPlaceAndCode(t *testing.T) {
	write(t, map[string]string{"good.yaml": goodPolicies, "bad.yaml": badPolicies, "empty.yaml": "", "syntax.yaml": "- name: [api\n"})
	out, _, code := printed(t, "", "check", "good.yaml")
	assert.Equal(t, "good.yaml: no mistakes in api, login\n", out)
	assert.Equal(t, exitDone, code)

	out, _, code = printed(t, badPolicies, "check", "good.yaml", "bad.yaml", "syntax.yaml", "-")
	assert.Equal(t, exitFound, code)
	var places []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, ">") { // a line of the file, and the mark below it
			places = append(places, strings.TrimSuffix(line, "\n"))
		}
	}
	require.Len(t, places, 8, out)
	for i, want := range []string{
		`^good.yaml: no mistakes`, `^bad.yaml:2:12: \[0\].limits\[0\].*\(RL110\)$`, `^bad.yaml:2:21: \[0\].limits\[1\].*\(RL110\)$`, `^bad.yaml:3:9: .*\(RL115\)$`,
		`^syntax.yaml:1:9: .*\(RL202\)$`, `^-:2:12: .*\(RL110\)$`, `^-:2:21: .*\(RL110\)$`, `^-:3:9: .*\(RL115\)$`,
	} {
		assert.Regexp(t, want, places[i])
	}
	assert.Contains(t, out, "\n>  2 |   limits: [ten/min, ***]\n                  ^\n", "the line of the file, with a mark")
}

func TestAFileThatCantBeReadIsWorseThanMistakes(t *testing.T) {
	write(t, map[string]string{"bad.yaml": badPolicies})
	for _, file := range []string{"lost.yaml", "."} {
		out, errs, code := printed(t, "", "check", "bad.yaml", file)
		assert.Equal(t, exitUnavailable, code)
		assert.Contains(t, out, "bad.yaml:2:12: ")
		assert.Contains(t, out, file)
		assert.Contains(t, errs, "not every file can be read")
	}
	_, _, code := printed(t, "", "check")
	assert.Equal(t, exitMisuse, code)
}

func TestCheckPrintsTheSameAsJSON(t *testing.T) {
	write(t, map[string]string{"bad.yaml": badPolicies, "\x1b[2J.yaml": "- name: \x1b[2J\n"})
	text, _, _ := printed(t, goodPolicies, "check", "-", "bad.yaml", "lost.yaml", "\x1b[2J.yaml")
	assert.NotContains(t, text, "\x1b")
	out, _, code := printed(t, goodPolicies, "check", "--json", "-", "bad.yaml", "lost.yaml", "\x1b[2J.yaml")
	assert.Equal(t, exitUnavailable, code)
	var result checkResult
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Files, 4)
	assert.Equal(t, []string{"api", "login"}, result.Files[0].Policies)
	assert.True(t, result.Files[0].OK)
	assert.Equal(t, "RL110", result.Files[1].Mistakes[0].Code)
	assert.Equal(t, 12, result.Files[1].Mistakes[0].Column)
	assert.Contains(t, result.Files[2].Unreadable, "lost.yaml")
	for _, f := range result.Files {
		for _, m := range f.Mistakes {
			assert.Contains(t, text, m.Text)
		}
	}
}
