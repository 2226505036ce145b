// Package fieldname checks the names of header fields and cookies.
package fieldname

import "strings"

// Valid reports whether name is a token (RFC 9110, section 5.6.2). Names of fields and cookies must be tokens.
func Valid(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}
