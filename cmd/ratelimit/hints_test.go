package main

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A flag that a message or a help text names exists: a hint leads to no other
// mistake.
func TestHintsNameFlagsThatExist(t *testing.T) {
	known := map[string]bool{"help": true, "bigkeys": true, "cluster": true, "version": true} // bigkeys and cluster are of redis-cli
	for _, c := range table.Commands {
		flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		c.New(flags)
		flags.VisitAll(func(f *flag.Flag) { known[f.Name] = true })
	}
	named := regexp.MustCompile(`(?:^|[ (,])--?([a-z][a-z0-9-]*)`)
	found := 0
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "complete.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				require.NoError(t, err)
				for _, m := range named.FindAllStringSubmatch(text, -1) {
					found++
					assert.True(t, known[m[1]], "%s names -%s, which no command has: %s", path, m[1], text)
				}
			}
			return true
		})
		return nil
	}))
	assert.Greater(t, found, 100, "the premise: messages name flags")
}
