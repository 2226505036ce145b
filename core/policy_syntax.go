package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// foldedLine is the mistake of a file that has a character which YAML 1.1 takes for the end of a line, and
// nobody else does: text around it would become another text, and editors count lines otherwise.
func foldedLine(data []byte) *PolicyFileError {
	if !utf8.Valid(data) {
		return nil // the parser tells that, or reads UTF-16
	}
	for _, folded := range []string{"\u0085", "\u2028", "\u2029"} {
		if i := bytes.Index(data, []byte(folded)); i >= 0 {
			e := placeOf(data, i)
			e.Reason = fmt.Sprintf("has the character %U, which ends a line in YAML: leave it out", []rune(folded)[0])
			return e
		}
	}
	return nil
}

// placeOf is where the byte i of data is.
func placeOf(data []byte, i int) *PolicyFileError {
	before := data[:i]
	return &PolicyFileError{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1,
	}
}

// version12 is the directive of YAML 1.2 in front of a file, behind comments at most.
var version12 = regexp.MustCompile(`^((?:[ \t]*(?:#.*)?\r?\n)*%YAML 1\.)2`)

// asYAML11 has the parser read a file that says it is YAML 1.2: what a policy needs is the same in both, and
// numbers and booleans are read by rules of our own.
func asYAML11(data []byte) []byte { return version12.ReplaceAll(data, []byte("${1}1")) }

const (
	// unknownEscape is the parser's message of a backslash in double quotes that means nothing to it.
	unknownEscape = "found unknown escape character"
	// tabEndsText is its message of a tab in front of what would go on with the text before.
	tabEndsText = "found a tab character that violates indentation"
)

// ofTabs are its messages where a tab indents.
var ofTabs = []string{tabEndsText, "found character that cannot start any token", "mapping values are not allowed in this context"}

var (
	yamlLine      = regexp.MustCompile(`^line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	// fromParser are the messages whose lines the yaml package counts from 0; the others from 1.
	fromParser = regexp.MustCompile(`^did not find expected ('|key|node|<)|directive|YAML document|tag handle`)
)

// syntaxMistake is an error of the yaml package, whose messages hold the line.
func syntaxMistake(err error, data []byte) *PolicyFileError {
	e := &PolicyFileError{Line: 1}
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		e.Line, _ = strconv.Atoi(m[1])
		if fromParser.MatchString(message) {
			e.Line++
		}
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	e.Line = max(1, min(e.Line, len(lines)))
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		alias := []byte("*" + m[1])
		if i := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, alias) }); i >= 0 {
			e.Line, e.Column = i+1, bytes.Index(lines[i], alias)+1
		}
	}
	if message == unknownEscape && bytes.Contains(lines[e.Line-1], []byte(`\/`)) {
		return slashMistake(data, bytes.Index(data, []byte(`\/`)))
	}
	if message == tabEndsText { // and the line is that where the text begins
		if i := slices.IndexFunc(lines[e.Line-1:], func(l []byte) bool { return tabIn(l) >= 0 }); i >= 0 {
			e.Line += i
		}
	}
	if tab := tabIn(lines[e.Line-1]); tab >= 0 && slices.Contains(ofTabs, message) {
		e.Column = tab + 1
		message = "a tab can't indent YAML: use spaces"
	}
	e.Reason = "is not YAML: " + message
	return e
}

// tabIn is where a tab is in the indentation of a line, or -1.
func tabIn(line []byte) int {
	return bytes.IndexByte(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t')
}

// slashMistake is why data that has its first \/ at i can't be read: JSON with a mistake behind it, else YAML.
func slashMistake(data []byte, i int) *PolicyFileError {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(any)); errors.As(err, &syntax) && int(syntax.Offset) > i+2 {
		e := placeOf(data, min(int(syntax.Offset), len(data))-1)
		e.Reason = "is not JSON: " + strings.TrimPrefix(syntax.Error(), "json: ")
		return e
	}
	e := placeOf(data, i)
	e.Reason = `is not YAML: \/ is an escape in JSON only: write /`
	return e
}
