package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheMapIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fill(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if filled != string(text) {
		t.Error("the map of CONTRIBUTING.md is not what the packages say: run go generate ./internal/packagemap")
	}
}

// Each package stands above all that it imports, and has its first sentence.
func TestPackagesStandAboveWhatTheyImport(t *testing.T) {
	source := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	packages, err := read(fstest.MapFS{
		"z/z.go":            source("// Package z begins. It imports all.\npackage z\nimport (\n\"" + module + "a\"\n\"" + module + "z/low\"\n\"fmt\"\n)\n"),
		"z/low/low.go":      source("// Package low ends [fmt.Println] | all:\n//\n//\tcode\npackage low\n"),
		"a/a.go":            source("// Package a is between: above low.\npackage a\nimport \"" + module + "z/low\"\n"),
		"a/a_test.go":       source("package a_test\nimport \"" + module + "z\"\n"),
		"only/only_test.go": source("// Package only_test is tests alone.\npackage only_test\nimport \"" + module + "z\"\n"),
		"examples/x/x.go":   source("package main\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "| package | what it is or does |\n| --- | --- |\n" +
		"| `only/` | is tests alone |\n| `z/` | begins |\n| `a/` | is between |\n" + `| ` + "`z/low/`" + ` | ends fmt.Println \| all |` + "\n"
	if got := table(packages); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

func TestEveryPackageSaysOnceWhatItIs(t *testing.T) {
	for _, files := range []fstest.MapFS{
		{"a/a.go": {Data: []byte("package a\n")}},
		{"a/a.go": {Data: []byte("// Package a is one.\npackage a\n")}, "a/b.go": {Data: []byte("// Package a is two.\npackage a\n")}},
	} {
		if _, err := read(files); err == nil || !strings.HasPrefix(err.Error(), "a has ") {
			t.Errorf("%d files: the error is %v, and must name the package", len(files), err)
		}
	}
}
