package conn

import (
	"cmp"
	"flag"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

// Side are the flags of one of two servers: those of Flags with the side's
// name in front, such as -to-cacert. Each comes before the flag for both.
type Side struct {
	Name string // from or to

	set []setting
}

// setting is a flag that was given, without the side's name.
type setting struct{ name, value string }

// forBoth are flags that a side does not have: a URL has the address.
var forBoth = []string{"h", "p", "s", "u", "timeout"}

// Define defines the flags.
func (s *Side) Define(flags *flag.FlagSet) {
	all := flagsOf(new(Flags))
	all.VisitAll(func(f *flag.Flag) {
		if slices.Contains(forBoth, f.Name) {
			return
		}
		value, _ := flag.UnquoteUsage(f)
		text := "-" + f.Name + " of " + s.argument() + " alone"
		if value != "" {
			text += ": a `" + value + "`"
		}
		flags.Var(&sideValue{f, s}, s.Name+"-"+f.Name, text)
		flags.Lookup(s.Name + "-" + f.Name).DefValue = zeroOf(f.DefValue)
	})
}

// argument is the name of the argument with the side's URL.
func (s *Side) argument() string { return strings.ToUpper(s.Name) }

// zeroOf keeps defaults that help does not show, and leaves out others: they
// are those for both.
func zeroOf(value string) string {
	if value == "0" || value == "false" {
		return value
	}
	return ""
}

// sideValue is one flag of a side.
type sideValue struct {
	*flag.Flag

	side *Side
}

func (v *sideValue) String() string { return "" }

func (v *sideValue) Set(text string) error {
	if err := v.Value.Set(text); err != nil {
		return err
	}
	v.side.set = append(v.side.set, setting{v.Name, text})
	return nil
}

// IsBoolFlag reports whether the flag takes no value.
func (v *sideValue) IsBoolFlag() bool {
	b, ok := v.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// flagsOf returns a set of flags that sets f. It gives f the defaults.
func flagsOf(f *Flags) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	f.Define(flags)
	return flags
}

// Sides returns the flags of two servers. Of what both has, a URL comes before
// a user and a password, and certificates are for what uses TLS.
func Sides(both *Flags, from, to *Side, fromURL, toURL string) (list [2]*Flags, err error) {
	secure := false
	for i, side := range []*Side{from, to} {
		f := new(Flags)
		flags := flagsOf(f)
		*f = *both
		f.url, f.side = []string{fromURL, toURL}[i], side
		if u, err := url.Parse(f.url); err == nil && u.User != nil {
			f.user, f.password = "", ""
		}
		for _, s := range side.set {
			if s.name == "tls" {
				_ = flags.Set(s.name, s.value)
			}
		}
		if f.usesTLS() {
			secure = true
		} else {
			f.certificates = TLS{}
		}
		for _, s := range side.set {
			_ = flags.Set(s.name, s.value) // it was read once
		}
		list[i] = f
	}
	if !secure && both.certificates.Given() {
		return list, errNeedTLS
	}
	return list, nil
}

var errNeedTLS = cli.Misuse("-cacert, -cert, -key, -sni and -insecure need -tls")

// usesTLS reports whether TLS is used.
func (f *Flags) usesTLS() bool { return f.tls || strings.HasPrefix(f.url, "rediss:") }

// named are flags, and the environment variables of passwords, in a message.
var named = func() *regexp.Regexp {
	var names []string
	flagsOf(new(Flags)).VisitAll(func(f *flag.Flag) {
		if !slices.Contains(forBoth, f.Name) {
			names = append(names, regexp.QuoteMeta(f.Name))
		}
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return regexp.MustCompile(`(leave)?(^|\s)-(` + strings.Join(names, "|") + `)\b|\bREDISCLI_`)
}()

// spell returns a message with the names that flags have: those of a side, if
// f has one.
func (f *Flags) spell(text string) string {
	if f.side == nil {
		return text
	}
	side := f.side.Name
	text = strings.ReplaceAll(text, "-h and -p", "the address in "+f.side.argument())
	return named.ReplaceAllStringFunc(text, func(found string) string {
		if found == "REDISCLI_" {
			return found + strings.ToUpper(side) + "_"
		}
		before, name, _ := strings.Cut(found, "-")
		if strings.HasPrefix(found, "leave") {
			before = found + " and "
		}
		return before + "-" + side + "-" + name
	})
}

// auth returns the password in an environment variable: that of the side
// first.
func (f *Flags) auth(env func(string) string, variable string) string {
	if f.side != nil {
		if own := env(f.spell(variable)); own != "" {
			return own
		}
	}
	return env(variable)
}
