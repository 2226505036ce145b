package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// table has a command that prints its flags and arguments.
func table() cli.Table {
	show := cli.Command{Name: "show", Args: "WORD…", Least: 1, Most: 2, About: "it's a test", New: func(flags *flag.FlagSet) cli.Run {
		name := flags.String("name", "", "a `word`")
		flags.Int("n", 0, "a `number`")
		loud := flags.Bool("loud", false, "loudly: [really]")
		return func(_ context.Context, s cli.Streams, args []string) error {
			_, _ = s.Out.Write([]byte(strings.Join(append(args, "name="+*name), " ")))
			switch {
			case *loud:
				return cli.ErrFound
			case args[0] == "lost":
				return errors.New("lost can't be read")
			}
			return nil
		}
	}}
	return cli.Table{Name: "tool", About: "tool is a test.", Commands: []cli.Command{show}}
}

// run returns what a command line prints and its exit code.
func run(line ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = table().Run(context.Background(), cli.Streams{Out: &o, Err: &e}, line)
	return o.String(), e.String(), code
}

func TestFlagsStandBeforeBetweenAndAfterArguments(t *testing.T) {
	for _, line := range []string{"show -name x a b", "show a -name x b", "show a b --name=x", "show a --name x -- b"} {
		out, errs, code := run(strings.Fields(line)...)
		assert.Equal(t, "a b name=x", out, line)
		assert.Empty(t, errs, line)
		assert.Equal(t, cli.OK, code, line)
	}
	out, _, _ := run("show", "--", "-name", "b")
	assert.Equal(t, "-name b name=", out, "what follows -- is no flag")
}

// A mistake keeps the columns of a terminal, and each of its lines begins anew.
func TestMistakesFitATerminal(t *testing.T) {
	var narrow, wide bytes.Buffer
	t1 := table()
	t1.Commands[0].New = func(*flag.FlagSet) cli.Run {
		return func(context.Context, cli.Streams, []string) error {
			return errors.New("Redis at 127.0.0.1:6379: no answer within a second\n  Check that the server runs")
		}
	}
	for _, err := range []io.Writer{show.Screen{Writer: &narrow, Columns: 30}, &wide} {
		t1.Run(t.Context(), cli.Streams{Out: io.Discard, Err: err}, []string{"show", "x"})
	}
	assert.Equal(t, "tool: Redis at 127.0.0.1:6379: no answer within a second\n  Check that the server runs\n", wide.String(), "in a pipe")
	for line := range strings.Lines(narrow.String()) {
		assert.LessOrEqual(t, len(line), 31, line)
	}
	assert.Equal(t, strings.Fields(wide.String()), strings.Fields(narrow.String()))
	assert.Contains(t, narrow.String(), "\n  Check")
}

func TestExitCodesAndMessages(t *testing.T) {
	for _, c := range []struct {
		line, says string
		code       int
	}{
		{"show -loud a", "", cli.Found},
		{"show lost", "tool: lost can't be read\n", cli.Unavailable},
		{"", "tool: name a command\n", cli.Misused},
		{"shwo a", `tool: "shwo" is not a command: did you mean show? (see tool help)` + "\n", cli.Misused},
		{"elephant", `tool: "elephant" is not a command (see tool help)` + "\n", cli.Misused},
		{"show -naem x a", "tool: show has no flag -naem: did you mean -name?\n", cli.Misused},
		{"show -elephant a", "tool: show has no flag -elephant (see help show)\n", cli.Misused},
		{"show -name", "tool: show: flag needs an argument: -name\n", cli.Misused},
		{"show", "tool: show needs WORD… (see tool help show)\n", cli.Misused},
		{"show a b c", "tool: show takes WORD…, and there are 3 arguments: quote one that has spaces (see tool help show)\n", cli.Misused},
		{"-name x show", "tool: the command comes first, and then its flags (see tool help)\n", cli.Misused},
		{"show -n=hunter2 a", "tool: show -n: this value can't be read: it is a number, such as 0\n", cli.Misused},
		{"show -loud=hunter2 a", "tool: show -loud: it takes no value\n", cli.Misused},
		{"show -nhunter2 a", "tool: show has no flag -n…: a value follows a space, as in -n VALUE\n", cli.Misused},
		{"show ---hunter2 a", "tool: show: a flag is - or --, its name, and a value after a space or =\n", cli.Misused},
		{"help shwo", "did you mean show?", cli.Misused},
		{"version -x", "tool: version takes nothing (see tool help version)\n", cli.Misused},
		{"completion csh", "bash, zsh or fish", cli.Misused},
	} {
		_, errs, code := run(strings.Fields(c.line)...)
		assert.Equal(t, c.code, code, c.line)
		assert.Contains(t, errs, c.says, c.line)
		assert.NotContains(t, errs, "hunter2", "what may be a password is not shown")
	}
}

func TestHelpNamesCommandsFlagsAndExitCodes(t *testing.T) {
	for _, line := range []string{"help", "-h", "--help"} {
		out, _, code := run(line)
		assert.Equal(t, cli.OK, code, line)
		for _, part := range []string{"show", "it's a test", "completion", "  1    done and found"} {
			assert.Contains(t, out, part, line)
		}
	}
	for _, line := range []string{"help show", "show -h", "show --help"} {
		out, _, code := run(strings.Fields(line)...)
		assert.Equal(t, cli.OK, code, line)
		assert.Contains(t, out, "Usage: tool show [FLAGS] WORD…", line)
		assert.Contains(t, out, "  -name word\n        a word\n", line)
	}
}

func TestVersionSaysWhatRuns(t *testing.T) {
	for _, line := range []string{"version", "-version", "--version"} {
		out, _, code := run(line)
		assert.Equal(t, cli.OK, code, line)
		assert.Regexp(t, "^tool [^,]+, "+regexp.QuoteMeta(runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)+"\n$", out, line)
	}
}

// The completion for bash runs in a bash; the others are checked by their
// shells where these are installed.
func TestCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a log"), nil, 0o600))
	script, _, _ := run("completion", "bash")
	for line, want := range map[string]string{
		"tool sh":          "show",
		"tool show -na":    "-name",
		"tool show -":      "-loud,-n,-name",
		"tool completion ": "bash,zsh,fish",
		"tool help co":     "completion",
		"tool show a":      "a log",
	} {
		words := strings.Split(line, " ")
		quoted := ""
		for _, w := range words {
			quoted += " '" + w + "'"
		}
		test := script + "\nCOMP_WORDS=(" + quoted + ") COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tool\nIFS=,; echo \"${COMPREPLY[*]}\"\n"
		cmd := exec.Command(bash, "--norc", "-c", test)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
		assert.Equal(t, want+"\n", string(out), line)
	}
	for shell, parts := range map[string][]string{
		"zsh":  {"#compdef tool", `'show:it'\''s a test'`, `'*-loud[loudly\: \[really\]]'`, `'*-name[a word]:word:_files'`},
		"fish": {`-a show -d 'it\'s a test'`, "-o loud -d", "-o name -r -d 'a word'"},
	} {
		out, _, code := run("completion", shell)
		assert.Equal(t, cli.OK, code, shell)
		for _, part := range parts {
			assert.Contains(t, out, part, shell)
		}
		if path, err := exec.LookPath(shell); err == nil {
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(out)
			text, err := check.CombinedOutput()
			assert.NoError(t, err, "%s can't read its script: %s", shell, text)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"check", "diff", "replay", "key", "hash"}
	for word, want := range map[string]string{"chekc": "check", "dif": "diff", "reply": "replay", "keys": "key", "elephant": "", "": "", strings.Repeat("x", 1000): ""} {
		assert.Equal(t, want, cli.Nearest(word, names), word)
	}
}
