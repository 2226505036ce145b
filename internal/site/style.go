package main

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"regexp"
)

//go:embed site.css
var ownStyle []byte

//go:embed site.js
var siteScript []byte

// demoStyle has the palette and the type of the demo, which are those of the
// site.
const demoStyle = "examples/demo/page/page.css"

var (
	palette = regexp.MustCompile(`(?s)\n:root \{.*?\n\}\n`)
	typeOf  = regexp.MustCompile(`\nbody \{[^}]*font: [0-9a-z./]+ ([^;}]+);`)
)

// addStyle adds what all pages look like, and the script that all have.
func (o *output) addStyle() error {
	demo, err := os.ReadFile(filepath.Join(root, demoStyle))
	if err != nil {
		return err
	}
	colours, letters := palette.Find(demo), typeOf.FindSubmatch(demo)
	if colours == nil || letters == nil {
		return errors.New(demoStyle + ": has no :root { … } with the palette, or no font of body, for the site to take")
	}
	style := append([]byte("/* The demo's. */"), colours...)
	style = append(style, ":root { --type: "+string(letters[1])+"; }\n\n"...)
	if err := o.addFile("site.css", append(style, ownStyle...)); err != nil {
		return err
	}
	if err := o.addFile("site.js", siteScript); err != nil {
		return err
	}
	return o.addSource("icon.svg", "examples/demo/page/icon.svg")
}
