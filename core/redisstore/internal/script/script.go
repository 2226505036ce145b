// Package script has the Lua script that decides in Redis. Its files are those of core/internal/bucket in Lua; script.lua is
// their frame.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Script is what decides, and its name in the server's cache. Both are strings, in the form of arguments.
type Script struct{ Text, SHA any }

// Ordinary is for all servers but those that lack Lua's struct library, as miniredis does. WithStruct has a stand-in for it
// ahead of the same.
var Ordinary, WithStruct = newScript(assemble("script")), newScript(Struct + assemble("script"))

// Struct is what the script uses of that library.
var Struct = file("struct")

// all constants by name, as they are written in Lua.
var all = constants()

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

// assemble returns a file with those that it includes, and constants replaced by their values.
func assemble(name string) string {
	text := regexp.MustCompile(`(?m)^ *include (\w+)$`).ReplaceAllStringFunc(file(name), func(include string) string {
		_, name, _ := strings.Cut(strings.TrimSpace(include), " ")
		return file(name)
	})
	return regexp.MustCompile(`'[^'\n]*'|--.*|\b[A-Z][A-Z_]*\b`).ReplaceAllStringFunc(text, func(word string) string {
		if value, ok := all[word]; ok {
			return "(" + value + ")"
		}
		return word
	})
}
