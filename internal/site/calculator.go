package main

import (
	"html/template"
	"os"
	"path/filepath"
)

// writeCalculator adds the page that computes what limits let through.
func writeCalculator(out *output) error {
	return out.addProgram(page{
		Path: "calculator/index.html", Top: "Calculator",
		Title:       "What does a limit let through?",
		Description: "Draw a client's requests, and see what a limit allows, what it denies and how many tokens are left. The same limit in Go, YAML and header fields.",
	}, "calculator", sharedStyle)
}

// sharedStyle has what the calculator and the page of replays share.
const sharedStyle = "calculator/calculator.css"

// addProgram adds a page that runs a program of cmd/ratelimit/wasm in a worker.
// All has one name: the folder of the page, of its sources and of the program.
func (o *output) addProgram(p page, name string, styles ...string) error {
	source := "internal/site/" + name + "/"
	body, err := os.ReadFile(filepath.Join(root, source, "page.html"))
	if err != nil {
		return err
	}
	script := name + "/" + name + ".js"
	p.Body, p.Wasm, p.Styles, p.Scripts = template.HTML(body), true, styles, []string{script}
	for _, add := range []func() error{
		func() error { return o.addSource(script, source+name+".js") },
		func() error { return o.addWasm(name+"/"+name+".wasm", "cmd/ratelimit/wasm/"+name) },
		func() error { return o.addPage(p) },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	for _, style := range append(styles, "program.js") {
		if _, there := o.files[style]; !there {
			if err := o.addSource(style, "internal/site/"+style); err != nil {
				return err
			}
		}
	}
	return nil
}
