package main

import (
	"html/template"
	"strings"

	demo "github.com/tokenbucket-go/ratelimit/examples/demo/page"
)

// writeDemo adds the demo, whose server is compiled to WebAssembly.
func writeDemo(out *output) error {
	f, err := demo.NewFiles()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"demo/demo.css": scoped(f.Style), "demo/page.js": f.Script, "demo/worker.js": f.Worker} {
		if err := out.addFile(name, []byte(content)); err != nil {
			return err
		}
	}
	// Calls that are not inlined make it smaller by a twentieth, and no slower
	// than its reader sees.
	if err := out.addWasm("demo/demo.wasm", "examples/demo", "-gcflags=all=-l"); err != nil {
		return err
	}
	return out.addPage(page{
		Path: "demo/index.html", Title: "How a token bucket works", Top: "Demo",
		Description: "A token bucket to play with: the library’s own decisions, in your browser. Drain it, share it between replicas, lose Redis.",
		Body:        template.HTML(`<div class="demo">` + f.Body + `</div>`), Bare: true, Wasm: true,
		Styles: []string{"demo/demo.css"}, Scripts: []string{"demo/page.js"},
	})
}

// scoped has a style hold in the demo alone: its page has the site's bar too.
func scoped(style string) string {
	style = strings.Replace(style, "\nbody {", "\n:scope {", 1)
	return "@scope (.demo) {\n" + style + "\n.hero { align-items: normal; }\n}\n"
}
