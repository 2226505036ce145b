// Package page is the demo's page: files that a browser loads.
package page

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
)

//go:embed *.html *.css *.js *.svg
var files embed.FS

// contentTypes are by a file's ending, so that they do not depend on what the machine knows of types.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy lets the page use its own files and this server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Serve serves the files: index.html as /, the others by their names.
func Serve(mux *http.ServeMux) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		at := "/" + name
		if name == "index.html" {
			at = "/{$}"
		}
		mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", contentTypes[path.Ext(name)])
			h.Set("Content-Security-Policy", policy)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			_, _ = w.Write(text)
		})
		return nil
	})
}
