package adminlimit

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"html/template"
	"time"

	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var (
	//go:embed page.css
	style string
	//go:embed page.html
	source string

	page = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") }, //nolint:gosec // a constant
		"show":   shown,
		"span":   func(seconds float64) string { return oncall.Wait(time.Duration(seconds * float64(time.Second))) },
		"moment": oncall.Instant,
	}).Parse(source))

	// contentPolicy lets the page have its style and its forms, and nothing
	// else.
	contentPolicy = func() string {
		sum := sha256.Sum256([]byte(style))
		return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	}()
)

// writePage writes a as the page.
func writePage(b *bytes.Buffer, a *answer) {
	if err := page.Execute(b, a); err != nil {
		panic(err) // the template does not fit its data
	}
}

// writeJSON writes a as JSON.
func writeJSON(b *bytes.Buffer, a *answer) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(a); err != nil {
		panic(err) // a limiter has no policy that can't be written
	}
}

// CanReload reports whether there is a file to reload.
func (a *answer) CanReload() bool { return a.Writable && a.canReload }

// CanPeek reports whether the denied keys of a policy can be looked up: hashes
// by a secret can't.
func (a *answer) CanPeek(policy string) bool {
	if a.Denied.Hashed {
		return false
	}
	for _, p := range a.Policies {
		if p.Name == policy {
			return true
		}
	}
	return false
}
