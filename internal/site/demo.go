package main

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"

	demo "github.com/tokenbucket-go/ratelimit/examples/demo/page"
)

// writeDemo adds the demo, whose server is compiled to WebAssembly.
func writeDemo(out *output) error {
	f, err := demo.NewFiles()
	if err != nil {
		return err
	}
	style, err := scoped(f.Style)
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"demo/demo.css": style, "demo/page.js": f.Script, "demo/worker.js": f.Worker} {
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

// keyframes can't stand within another rule.
var keyframes = regexp.MustCompile(`(?m)^@keyframes .*\n`)

// scoped is the style of the demo, which must not reach the bar at the top, by
// nesting all of it in a rule.
func scoped(style string) (string, error) {
	for _, rule := range []struct{ alone, nested string }{{"\nbody {", "\n& {"}, {"\n.lost svg > * {", "\n.lost & svg > * {"}} {
		if strings.Count(style, rule.alone) != 1 {
			return "", fmt.Errorf("the demo's style must have the rule %q once, which here is %q", rule.alone, rule.nested)
		}
		style = strings.Replace(style, rule.alone, rule.nested, 1)
	}
	frames := strings.Join(keyframes.FindAllString(style, -1), "")
	return ".demo {\n" + keyframes.ReplaceAllString(style, "") + "\n.hero { align-items: normal; }\n.banner { top: 61px; }\n}\n" + frames, nil
}
