// Package script has the Lua script that decides in Redis. script.lua is its
// frame, with the format of its arguments and its reply. The other files
// compute what core/internal/bucket, the reference implementation, computes in
// Go. Files, functions and fields have the same names in both, where both have
// them.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
)

//go:embed *.lua
var files embed.FS

// Script is a script and its SHA-1 digest, by which EVALSHA calls it. Both are
// strings; as any they need no conversion when they become arguments of a
// command.
type Script struct{ Text, SHA any }

// Ordinary returns the script for servers with Lua's struct library. The first
// call assembles it, which takes some milliseconds.
var Ordinary = sync.OnceValue(func() *Script { return newScript(assemble("script")) })

// WithStruct returns the script that begins with a replacement of that library,
// for the others, such as miniredis.
var WithStruct = sync.OnceValue(func() *Script { return newScript(Struct + Ordinary().Text.(string)) })

// Struct is the replacement of the struct library: the functions that the
// script uses.
var Struct = file("struct")

func newScript(text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{text, hex.EncodeToString(sum[:])}
}

func file(name string) string {
	text, err := files.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// constants returns the constants of constants.lua by name, as text.
func constants() map[string]string {
	values := make(map[string]string)
	for _, line := range regexp.MustCompile(`(?m)^local (.+?) = (.+?)( --.*)?$`).FindAllStringSubmatch(file("constants"), -1) {
		list := strings.Split(line[2], ", ")
		for i, name := range strings.Split(line[1], ", ") {
			values[name] = list[i]
		}
	}
	return values
}

// assemble returns a file with the files that it includes, without comments,
// and with the values of constants in place of their names.
func assemble(name string) string {
	values := constants()
	text := included(file(name))
	return regexp.MustCompile(`'[^'\n]*'|--.*|\b[A-Z][A-Z_]*\b`).ReplaceAllStringFunc(text, func(word string) string {
		if strings.HasPrefix(word, "--") {
			return ""
		}
		if value, ok := values[word]; ok {
			return "(" + value + ")"
		}
		return word
	})
}

var includes = regexp.MustCompile(`(?m)^ *include (\w+)$`)

// included returns a text with the files that it includes.
func included(text string) string {
	return includes.ReplaceAllStringFunc(text, func(include string) string {
		_, name, _ := strings.Cut(strings.TrimSpace(include), " ")
		return included(file(name))
	})
}
