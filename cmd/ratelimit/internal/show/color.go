package show

import "regexp"

// verdicts are what output says of a key or of a server: at the begin of a
// line, of a cell, or behind a subject.
var verdicts = regexp.MustCompile(`(?m)(^|  |: )(allowed: never used|allowed:|denied:|not known:)|^(fault|note)( )`)

// The colors of verdicts. Terminals have them in all themes; what is unknown is
// fainter than other text.
const (
	red, green, faint, plain = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[0m"
)

var colors = map[string]string{"allowed:": green, "denied:": red, "not known:": faint, "allowed: never used": faint, "fault": red, "note": faint}

// HasColor reports whether a terminal is written to in colors: not if the
// environment has NO_COLOR (https://no-color.org), and not if the terminal is
// dumb.
func HasColor(env func(name string) string) bool {
	return env("NO_COLOR") == "" && env("TERM") != "dumb"
}

// Write writes text, with its verdicts in color.
func (s Screen) Write(text []byte) (int, error) {
	if !s.Color {
		return s.Writer.Write(text)
	}
	_, err := s.Writer.Write(verdicts.ReplaceAllFunc(text, func(found []byte) []byte {
		parts := verdicts.FindSubmatch(found)
		word := string(parts[2]) + string(parts[3])
		return []byte(string(parts[1]) + colors[word] + word + plain + string(parts[4]))
	}))
	if err != nil {
		return 0, err
	}
	return len(text), nil
}
