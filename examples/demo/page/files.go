package page

import (
	"fmt"
	"strings"
)

// Files are the page for a host that has no server but that of its files, below
// any path. Beside them must be demo.wasm, which is the demo compiled for
// JavaScript, and above them the toolchain's wasm_exec.js.
type Files struct {
	Body   string // what stands in <body>
	Style  string
	Script string // a module
	Worker string // worker.js, which the script starts
}

// withoutServer is what the page says in other words there.
var withoutServer = []struct{ here, there string }{
	{"<main>", `<main id="main" tabindex="-1">`},
	{" of the demo’s server, and draws them", ", and draws them"},
	{` Without it, <a href="/gin/limited">/gin/limited</a> asks the same limiter: load it again and again, and after ten tokens it answers 429 until one comes back.`, ""},
	{"as the server wrote it down", "as it was made"},
	{"    <p><a href=\"/api/log\">The same as JSON</a></p>\n", ""},
}

// NewFiles returns the page for a host of files.
func NewFiles() (f Files, err error) {
	parts := map[*string]string{&f.Body: "index.html", &f.Style: styles, &f.Script: "tab.js " + scripts, &f.Worker: "worker.js"}
	for part, names := range parts {
		text, err := join(names)
		if err != nil {
			return f, err
		}
		*part = string(text)
	}
	untouched, err := join("untouched.json")
	if err != nil {
		return f, err
	}
	f.Script = "const untouched = " + strings.TrimSpace(string(untouched)) + ";\n" + f.Script
	_, f.Body, _ = strings.Cut(f.Body, "<body>\n")
	f.Body, _, _ = strings.Cut(f.Body, "</body>")
	for _, words := range withoutServer {
		if strings.Count(f.Body, words.here) != 1 {
			return f, fmt.Errorf("index.html must have %q once: without a server it is %q", words.here, words.there)
		}
		f.Body = strings.Replace(f.Body, words.here, words.there, 1)
	}
	return f, nil
}
