// Package page is the demo's page. A browser asks for two files: a page with its style, and a script. On a site of files the same page
// has the demo in a worker.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

//go:embed *.html *.css *.js *.svg *.json
var files embed.FS

// served are the files that a browser asks for, and what they are. The script and the style are joined from files that are small
// enough to read. All scripts share one scope.
var served = []struct{ path, parts, contentType string }{
	{"/{$}", "index.html", "text/html; charset=utf-8"},
	{"/page.js", "server.js " + scripts, "text/javascript; charset=utf-8"},
	{"/icon.svg", "icon.svg", "image/svg+xml"},
}

// scripts follow the one that says where requests go.
const scripts = "dom.js time.js bucket.js knob.js hero.js chapters.js yours.js live.js"

// styles stand in the page, where styleHere is: it is drawn as soon as it comes.
const (
	styles    = "page.css parts.css"
	styleHere = "<style></style>"
)

// policy lets the page use its own files and this server, and nothing else. %s is the hash of its style.
const policy = "default-src 'none'; script-src 'self'; style-src 'sha256-%s'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Serve serves the page as /.
func Serve(mux *http.ServeMux) error {
	style, err := join(styles)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(style)
	allowed := fmt.Sprintf(policy, base64.StdEncoding.EncodeToString(hash[:]))
	for _, f := range served {
		text, err := join(f.parts)
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte(styleHere), slices.Concat([]byte("<style>"), style, []byte("</style>")), 1)
		var small bytes.Buffer
		zip := gzip.NewWriter(&small)
		if _, err := zip.Write(text); err != nil {
			return err
		}
		if err := zip.Close(); err != nil {
			return err
		}
		mux.HandleFunc("GET "+f.path, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Type", f.contentType)
			h.Set("Content-Security-Policy", allowed)
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			h.Set("Vary", "Accept-Encoding")
			body := text
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				h.Set("Content-Encoding", "gzip")
				body = small.Bytes()
			}
			_, _ = w.Write(body)
		})
	}
	return nil
}

// join reads files, one after the other.
func join(names string) (text []byte, err error) {
	for name := range strings.FieldsSeq(names) {
		part, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text = append(text, part...)
	}
	return text, nil
}
