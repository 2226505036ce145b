package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// output is the site while it is made, in memory. Paths are below its top, with
// slashes, such as demo/index.html.
type output struct {
	files map[string][]byte
	pages []page
}

func newOutput() *output { return &output{files: make(map[string][]byte)} }

// page is a page in the frame that all pages have. Its links, and those of its
// body, are relative to its path, so that the site works below any path of a
// host.
type page struct {
	Path        string // such as demo/index.html
	Title       string
	Description string        // for search engines, and for cards that lead here
	Body        template.HTML // what stands in <main>
	Styles      []string      // paths of style sheets of its own, below the top of the site
	Scripts     []string      // paths of scripts of its own, which are modules
	Wasm        bool          // it runs WebAssembly
	Top         string        // its name in the navigation at the top of each page, if it is there
	Bare        bool          // Body has its own <main id="main">, and the style of texts does not hold in it

	group string        // of the navigation of the documentation
	toc   []heading     // its table of contents
	edit  string        // its source in the repository
	index []searchEntry // what the search finds in it
}

// addFile adds a file. It is an error if another one has its path.
func (o *output) addFile(name string, content []byte) error {
	if !fs.ValidPath(name) || name == "." {
		return fmt.Errorf("file %q: write a path below the top of the site, such as demo/demo.js", name)
	}
	if _, there := o.files[name]; there {
		return fmt.Errorf("file %q: is added twice", name)
	}
	o.files[name] = content
	return nil
}

// addSource adds a file of the repository as it is.
func (o *output) addSource(name, source string) error {
	content, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		return err
	}
	return o.addFile(name, content)
}

// addPage adds a page. It is laid out when all pages are known.
func (o *output) addPage(p page) error {
	if p.Title == "" || p.Description == "" {
		return fmt.Errorf("page %q: has no title or no description", p.Path)
	}
	o.pages = append(o.pages, p)
	return o.addFile(p.Path, nil)
}

// addWasm compiles the main package in a directory of the repository, such as
// internal/site/calculator, to WebAssembly. Each of a module's packages is
// compiled with the module's own go.mod. more are build flags of its own.
func (o *output) addWasm(name, dir string, more ...string) error {
	temp, err := os.MkdirTemp("", "site")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	program := filepath.Join(temp, "program.wasm")
	flags, err := withoutTLS(temp)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program}, flags, more, []string{"."})
	build := exec.Command("go", args...)
	build.Dir = filepath.Join(root, dir)
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s, for %s: %w\n%s", dir, name, err, said)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := o.addFile(name, content); err != nil {
		return err
	}
	return o.addRuntime()
}

// wasmExec starts programs that Go has compiled to WebAssembly.
const wasmExec = "wasm_exec.js"

// addRuntime adds the toolchain's wasmExec, once.
func (o *output) addRuntime() error {
	if _, there := o.files[wasmExec]; there {
		return nil
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "lib", "wasm", wasmExec))
	if err != nil {
		return fmt.Errorf("%s of %s: %w", wasmExec, runtime.Version(), err)
	}
	return o.addFile(wasmExec, content)
}

// finish lays out the pages, adds what they share, and checks all links.
func (o *output) finish() error {
	for _, add := range []func() error{o.addStyle, o.addSearch, o.layOut, o.check, o.addWorker} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// write writes the site. The folder must be new, empty, or an older site.
func (o *output) write(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(list) > 0 {
		if script, _ := os.ReadFile(filepath.Join(dir, worker)); !bytes.Contains(script, []byte("ratelimit-site:")) { // others have a worker too
			return fmt.Errorf("%s: has files, and is no site that this command wrote: name a new folder, or empty it", dir)
		}
		for _, entry := range list {
			if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	for name, content := range o.files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// names are the paths of all files, in order.
func (o *output) names() []string {
	var names []string
	for name := range o.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// String says how much there is to load, as hosts that compress send it.
func (o *output) String() string {
	var zipped int
	for _, content := range o.files {
		zipped += gzipped(content)
	}
	return fmt.Sprintf("%d pages, %d files, %.1f MB gzipped", len(o.pages), len(o.files), float64(zipped)/1e6)
}

// gzipped is how many bytes are sent for a file.
func gzipped(content []byte) int {
	var small bytes.Buffer
	zip := gzip.NewWriter(&small)
	_, _ = zip.Write(content)
	_ = zip.Close()
	return small.Len()
}
