package field

import "strings"

// ValidName reports whether name is a token (RFC 9110, section 5.6.2). Names of
// fields and cookies must be tokens.
func ValidName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}
