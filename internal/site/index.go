package main

import "html/template"

// writeIndex adds the first page.
func writeIndex(out *output) error {
	return out.addPage(page{
		Path: "index.html", Title: "ratelimit: rate limiting for Go web services", Description: "Rate limiting for Go web services",
		Body: template.HTML(`<h1>ratelimit</h1>`),
	})
}
