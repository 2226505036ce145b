package adminlimit

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"
)

var (
	//go:embed page.css
	style string
	//go:embed page.html
	source string

	page = template.Must(template.New("page").Funcs(template.FuncMap{
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") }, //nolint:gosec // a constant
		"show":   shown,
		"span":   span,
		"moment": func(t time.Time) string { return t.Format("2006-01-02 15:04:05 UTC") },
	}).Parse(source))

	// contentPolicy lets the page have its style and its forms, and nothing else.
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

// CanPeek reports whether a denied key of a policy can be looked up as the report shows it: hashes can't.
func (a *answer) CanPeek(policy, key string) bool {
	if a.counts.Form(key) != key {
		return false
	}
	for _, p := range a.Policies {
		if p.Name == policy {
			return true
		}
	}
	return false
}

// shown returns s as the page shows it: quoted if it has bytes that nobody can see, or that change how others are read.
func shown(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// span returns so many seconds in words, such as 2h14m.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Second {
		d = (d + time.Second - 1).Truncate(time.Second) // whoever waits so long must not come too early
	} else {
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
