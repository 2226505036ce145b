package snippet

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Go is a limit as an expression of Go. It is short where functions and methods
// of package core make the very limit, and core.ParseLimit of its text where
// they don't, as for limits in the time zone of a place.
func Go(l core.Limit) string {
	expression, made := short(l)
	if made.String() != l.String() {
		return fmt.Sprintf("core.Must(core.ParseLimit(%s))", literal(l.String()))
	}
	return expression
}

// short is an expression, and the limit that it makes: l itself, but for what
// it has no methods for.
func short(l core.Limit) (expression string, made core.Limit) {
	add := func(method, argument string) { expression += "." + method + "(" + argument + ")" }
	if l.Mode == core.Concurrent {
		expression, made = "core.InFlight("+whole(l.Capacity)+")", core.InFlight(l.Capacity)
	} else if expression, made = rate(l); made.Mode != l.Mode {
		add("WithMode", "core."+l.Mode.String())
		made = made.WithMode(l.Mode)
	}
	if made.Capacity != l.Capacity {
		add("WithBurst", whole(l.Capacity))
		made = made.WithBurst(l.Capacity)
	}
	if l.Unit != "" {
		add("WithUnit", strconv.Quote(l.Unit))
		made = made.WithUnit(l.Unit)
	}
	if l.MaxHold != 0 {
		add("WithMaxHold", interval(l.MaxHold))
		made = made.WithMaxHold(l.MaxHold)
	}
	if l.Name != "" {
		add("WithName", strconv.Quote(l.Name))
		made = made.WithName(l.Name)
	}
	return expression, made
}

// rate is the constructor of a limit.
func rate(l core.Limit) (expression string, made core.Limit) {
	n := l.RefillRate
	monthly := core.PerMonth(n)
	for _, of := range []struct {
		name  string
		made  core.Limit
		usual bool
	}{
		{"core.PerSecond", core.PerSecond(n), true},
		{"core.PerMinute", core.PerMinute(n), true},
		{"core.PerHour", core.PerHour(n), true},
		{"core.PerDay", core.PerDay(n), true},
		{"core.PerWeek", core.PerWeek(n), l.Location == time.UTC},
		{"core.PerMonth", monthly, l.Location == monthly.Location},
	} {
		if of.usual && of.made.RefillInterval == l.RefillInterval {
			return of.name + "(" + number(n) + ")", of.made
		}
	}
	return "core.Per(" + number(n) + ", " + interval(l.RefillInterval) + ")", core.Per(n, l.RefillInterval)
}

// interval is a duration in the largest unit that counts it in whole numbers.
func interval(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{
		{core.Month, "core.Month"}, {time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"},
	} {
		switch n := d / unit.of; {
		case d%unit.of != 0 || n == 0:
		case n == 1:
			return unit.name
		default:
			return fmt.Sprintf("%d*%s", n, unit.name)
		}
	}
	return fmt.Sprintf("%d*time.Nanosecond", d)
}

// number is a rate as a constant.
func number(n float64) string {
	if n == float64(int64(n)) {
		return whole(int64(n))
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

// whole is n with underscores, from five digits on.
func whole(n int64) string {
	digits := strconv.FormatInt(n, 10)
	if len(digits) < 5 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "_" + digits[i:]
	}
	return digits
}

// literal is a string between backquotes if it has double quotes.
func literal(s string) string {
	if strings.Contains(s, `"`) && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// Lines are lines of a program that limits each address by a policy of these
// limits.
func Lines(limits []core.Limit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy := core.Policy{\n\tName: %q,\n\tLimits: []core.Limit{\n", Policy)
	for _, l := range limits {
		fmt.Fprintf(&b, "\t\t%s,\n", Go(l))
	}
	b.WriteString("\t},\n}\nlimiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))\nlimit := httplimit.New(limiter, httplimit.ByIP())\n")
	return b.String()
}
