// Package site writes the project's website: a folder of static files, for any
// host and below any path.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// root is the top of the repository: go run starts the program in its own
// folder.
const root = "../.."

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" || os.Args[1][0] == '-' {
		fmt.Fprintln(os.Stderr, "usage: scripts/site OUT, the folder to write")
		os.Exit(2)
	}
	out, err := build()
	if err == nil {
		err = out.write(os.Args[1])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "site: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %s\n", filepath.Clean(os.Args[1]), out)
}

// sections add what the site consists of, in the order of the navigation at
// the top of each page. The first page comes last: it shows the others.
var sections = []func(*output) error{writeDocs, writeDemo, writeCalculator, writeReplay, writeIndex}

// build makes all files of the site.
func build() (*output, error) {
	out := newOutput()
	for _, write := range sections {
		if err := write(out); err != nil {
			return nil, err
		}
	}
	return out, out.finish()
}
