package snippet_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/snippet"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

// functions are what expressions may call, and names what they may name.
var (
	functions = map[string]any{
		"core.PerSecond": core.PerSecond[float64], "core.PerMinute": core.PerMinute[float64], "core.PerHour": core.PerHour[float64],
		"core.PerDay": core.PerDay[float64], "core.PerWeek": core.PerWeek[float64], "core.PerMonth": core.PerMonth[float64],
		"core.Per": core.Per[float64], "core.InFlight": core.InFlight[int64],
		"core.ParseLimit": core.ParseLimit, "core.Must": core.Must[core.Limit],
	}
	names = map[string]any{
		"core.Stepped": core.Stepped, "core.Aligned": core.Aligned, "core.Continuous": core.Continuous, "core.Month": core.Month,
		"time.Nanosecond": time.Nanosecond, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
		"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
	}
)

// compute is the value of an expression of Go, as the compiler sees it.
func compute(e ast.Expr) []reflect.Value {
	one := func(v any) []reflect.Value { return []reflect.Value{reflect.ValueOf(v)} }
	switch e := e.(type) {
	case *ast.BasicLit:
		switch e.Kind {
		case token.INT:
			return one(core.Must(strconv.ParseInt(e.Value, 0, 64)))
		case token.FLOAT:
			return one(core.Must(strconv.ParseFloat(e.Value, 64)))
		default:
			return one(core.Must(strconv.Unquote(e.Value)))
		}
	case *ast.BinaryExpr: // 5*time.Minute
		return one(time.Duration(compute(e.X)[0].Int() * compute(e.Y)[0].Int()))
	case *ast.SelectorExpr:
		name := e.X.(*ast.Ident).Name + "." + e.Sel.Name
		if names[name] == nil {
			panic("no name " + name)
		}
		return one(names[name])
	case *ast.CallExpr:
		call := e.Fun.(*ast.SelectorExpr)
		var f reflect.Value
		if pkg, ok := call.X.(*ast.Ident); ok {
			f = reflect.ValueOf(functions[pkg.Name+"."+call.Sel.Name])
		} else {
			f = compute(call.X)[0].MethodByName(call.Sel.Name)
		}
		var args []reflect.Value
		for _, a := range e.Args {
			args = append(args, compute(a)...)
		}
		for i := range args {
			if want := f.Type().In(i); want.Kind() != reflect.Interface {
				args[i] = args[i].Convert(want)
			} else if !args[i].IsValid() {
				args[i] = reflect.Zero(want)
			}
		}
		return f.Call(args)
	}
	panic(fmt.Sprintf("%T is no part of a limit", e))
}

// The Go that people copy makes the very limit that they typed.
func TestGoMakesTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limitdraw.HoldingLimit.Draw(t, "limit").WithName(rapid.SampledFrom([]string{"", "daily", `a "b" ` + "`c`"}).Draw(t, "name"))
		text := snippet.Go(l)
		e, err := parser.ParseExpr(text)
		require.NoError(t, err, text)
		assert.Equal(t, l.String(), compute(e)[0].Interface().(core.Limit).String(), text)
	})
}

// The YAML that people copy is read as the limits that they typed.
func TestYAMLMakesTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var limits []core.Limit
		for i := range rapid.IntRange(1, 4).Draw(t, "limits") {
			limits = append(limits, limitdraw.HoldingLimit.Draw(t, "limit").WithName(rapid.SampledFrom([]string{"n", "a b: #", `"`}).Draw(t, "name")+strconv.Itoa(i)))
		}
		text := snippet.File(limits)
		policies, err := policyfile.Load(strings.NewReader(text))
		require.NoError(t, err, text)
		require.Len(t, policies[snippet.Policy].Limits, len(limits))
		for i, l := range policies[snippet.Policy].Limits {
			assert.Equal(t, limits[i].String(), l.String(), text)
		}
	})
}

// What people write every day is as short as they write it.
func TestUsualLimitsAreShort(t *testing.T) {
	for text, want := range map[string]string{
		"60/min burst 20":      "core.PerMinute(60).WithBurst(20)",
		"1000/day aligned":     "core.PerDay(1000).WithMode(core.Aligned)",
		"5/15min stepped":      "core.Per(5, 15*time.Minute).WithMode(core.Stepped)",
		"50_000/month":         "core.PerMonth(50_000)",
		"0.1/s burst 5":        "core.PerSecond(0.1).WithBurst(5)",
		"5 at once hold 2min":  "core.InFlight(5).WithMaxHold(2*time.Minute)",
		"10/day in Asia/Tokyo": `core.Must(core.ParseLimit("10/day in Asia/Tokyo"))`,
	} {
		assert.Equal(t, want, snippet.Go(core.Must(core.ParseLimit(text))), text)
	}
}
