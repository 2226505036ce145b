// Package snippet writes limits as people copy them: into Go, and into a policy
// file.
package snippet

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// plain is text that YAML takes for itself, without quotes.
var plain = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9_./+ -]*\z`)

// quoted is s as YAML has it. Without quotes it is neither a number nor a
// boolean.
func quoted(s string) string {
	if plain.MatchString(s) && strings.ContainsAny(s, "/ ") && !strings.HasSuffix(s, " ") {
		return s
	}
	return strconv.Quote(s)
}

// YAML is what a policy in a file has for limits: the policy's own, or those of
// a plan.
func YAML(limits []core.Limit, plan string) string {
	if plan == "" {
		return "limits:\n" + list(limits, "  ")
	}
	return "plans:\n  " + quoted(plan) + ":\n" + list(limits, "    ")
}

// Policy is the name of the policy of [File] and [Lines].
const Policy = "api"

// File is a policy file with one policy of these limits.
func File(limits []core.Limit) string {
	return "policies:\n  - name: " + Policy + "\n    limits:\n" + list(limits, "      ")
}

func list(limits []core.Limit, indent string) string {
	var b strings.Builder
	for _, l := range limits {
		b.WriteString(indent + "- " + quoted(l.String()) + "\n")
	}
	return b.String()
}
