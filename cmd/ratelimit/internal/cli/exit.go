package cli

import (
	"errors"
	"fmt"
)

// Exit codes. Each is listed by the command help.
const (
	OK          = 0
	Found       = 1   // the command did its work and found something: mistakes, differences, a denial, faults
	Misused     = 2   // the command line is wrong, and nothing was done
	Unavailable = 3   // something that was named can't be read or reached
	Interrupted = 130 // by SIGINT; by another signal it is 128 and its number, as in a shell
)

// exitCodes are the lines of help about them.
const exitCodes = `Exit codes:
  0    done
  1    done and found what it looked for: mistakes, differences, denials, faults
  2    the command line is wrong; nothing was done
  3    a file or server that was named can't be read or reached
  130  interrupted by Ctrl-C, and 143 by SIGTERM: what was done is said
`

// ErrFound makes the command end with the code Found. What was found is printed
// already.
var ErrFound = errors.New("found")

// misuse is a mistake in the command line.
type misuse struct{ text string }

func (m misuse) Error() string { return m.text }

// Misuse returns an error for a mistake in the command line.
func Misuse(format string, args ...any) error { return misuse{fmt.Sprintf(format, args...)} }

// IsMisuse reports whether err is a mistake in the command line.
func IsMisuse(err error) bool { return errors.As(err, &misuse{}) }

// codeOf returns the exit code for what a command returned.
func codeOf(err error) int {
	var by stopped
	switch {
	case errors.As(err, &by):
		return 128 + int(by.signal) // as a shell has it: 130 and 143
	case err == nil:
		return OK
	case errors.Is(err, ErrFound):
		return Found
	case IsMisuse(err):
		return Misused
	default:
		return Unavailable
	}
}
