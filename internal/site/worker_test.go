package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The service worker keeps all files but itself, by what each of them has.
func TestTheWorkerKeepsEachFile(t *testing.T) {
	kept := func(content string) map[string]string {
		out := newOutput()
		out.files = map[string][]byte{"index.html": nil, "docs/index.html": nil, "docs/plans.html": nil, "demo/demo.wasm": []byte(content)}
		if err := out.addWorker(); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(out.files[worker]), "const files = ")
		list, _, _ := strings.Cut(rest, ";")
		var files map[string]string
		if err := json.Unmarshal([]byte(list), &files); err != nil {
			t.Fatalf("%v in %s", err, list)
		}
		return files
	}
	older, newer := kept("older"), kept("newer")
	if got, want := slices.Sorted(maps.Keys(older)), []string{"", "demo/demo.wasm", "docs/", "docs/plans.html"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q; want %q", got, want)
	}
	for name, hash := range older {
		if changed := newer[name] != hash; changed != (name == "demo/demo.wasm") {
			t.Errorf("%q changed: %v", name, changed)
		}
	}
}
