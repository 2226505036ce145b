package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// accessible returns the rules of accessibility that the page breaks as it is
// now.
func accessible(t *testing.T, page *browser.Page) []string {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join(root, "examples/demo/browsertest/testdata/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	browser.JS[any](page, `(() => { `+string(axe)+` })()`)
	return browser.JS[[]string](page, violations)
}
