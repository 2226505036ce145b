package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Each generated file is what its template makes.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	generated, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if adapters := len(frameworks) + len(interceptors); len(generated) < adapters {
		t.Fatalf("the premise: each of %d adapters has a generated file, and %d are generated", adapters, len(generated))
	}
	for path, want := range generated {
		if got, err := os.ReadFile(filepath.Join(root, path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its template makes: change the template, then run go generate ./internal/adaptergen (%v)", path, err)
		}
	}
}
