package adaptertest

import (
	"encoding/base64"
	"strings"
)

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// basics returns the spellings of one Basic credential that a check of
// net/http, echo or fiber takes.
func basics() (list []string) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := strings.TrimRight(inBase64("ann:secret"), "=") // ten bytes: four bits of the last letter are unused
	start, last := text[:len(text)-1], strings.IndexByte(letters, text[len(text)-1])
	for bits := range 16 {
		one := start + letters[last+bits:last+bits+1]
		list = append(list, "Basic "+one+"==", "bASIC \t "+one)
	}
	return append(list, "BasicX"+text+"==", "basic:"+text+"==")
}

// aToken is a JSON Web Token without its signature.
var aToken = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ann"}`)) + "."

// tokens returns the spellings of one JSON Web Token after a prefix. One byte
// of signature leaves four bits unused.
func tokens(prefix string) (list []string) {
	for bits := range 16 {
		list = append(list, prefix+aToken+"A"+string(rune('A'+bits)))
	}
	return append(list, prefix+aToken+"AA==")
}
