package adminlimit

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

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

func writePage(b *bytes.Buffer, a *answer) {
	if err := page.Execute(b, a); err != nil {
		panic(err) // the template does not fit its data
	}
}

func writeJSON(b *bytes.Buffer, a *answer) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(a); err != nil {
		panic(err) // a limiter has no policy that can't be written
	}
}

// shown returns s, which is no key, as the page shows it: quoted if it has
// bytes that nobody can see, or that change how others are read.
func shown(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// CanPeek reports whether the denied keys of a policy can be looked up: hashes
// by a secret can't.
func (a *answer) CanPeek(name string) bool {
	return !a.Denied.Hashed && slices.ContainsFunc(a.Policies, func(p policy) bool { return p.Name == name })
}
