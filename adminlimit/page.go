package adminlimit

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"html/template"
	"slices"
	"time"
)

var (
	//go:embed page.css
	style string
	//go:embed page.html
	source string

	page = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") }, //nolint:gosec // a constant
		"has":    slices.Contains[[]string],
		"bucket": func(policy, key string) Bucket { return Bucket{Policy: policy, Key: key} },
		"span":   func(seconds float64) string { return wait(time.Duration(seconds * float64(time.Second))) },
		"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
		"moment": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	}).Parse(source))

	// contentPolicy lets the page have its style and its forms, and nothing
	// else.
	contentPolicy = func() string {
		sum := sha256.Sum256([]byte(style))
		return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	}()
)

func writePage(b *bytes.Buffer, s *State) error { return page.Execute(b, s) }

func writeJSON(b *bytes.Buffer, s *State) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}
