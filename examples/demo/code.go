package main

import (
	_ "embed"
	"fmt"
	"go/format"
	"net/http"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// code is what to copy: a program with a stage's limits.
type code struct {
	Framework string `json:"framework"`

	Lines   string `json:"lines"` // of the program: those that limit
	Program string `json:"program"`
}

// getCode writes a stage's settings as code, for a framework.
func (d *demo) getCode(w http.ResponseWriter, r *http.Request) {
	st := d.stage(r.PathValue("stage"))
	if st == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	framework := r.FormValue("framework")
	if _, ok := adapters[framework]; !ok {
		framework = frameworks[0].name
	}
	st.mu.Lock()
	s, at := st.settings, place{OnFailure: st.id == "lose"}
	st.mu.Unlock()
	if d.onBox(st) {
		at.Redis = "redis://localhost:6379"
	} else if st.specs[0].store == d.backend.store {
		at.Redis = d.backend.url
	}
	c, err := s.code(framework, at)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, fieldErrors{"": "these settings can't be written as Go"})
		return
	}
	writeJSON(w, http.StatusOK, c)
}

//go:embed program.tmpl
var programText string

var programTemplate = template.Must(template.New("program").Parse(programText))

// adapters are what differs between the frameworks' programs: the framework's import, our package, and what a request is.
var adapters = map[string]struct{ Import, Adapter, Arg string }{
	"gin":   {"github.com/gin-gonic/gin", "ginlimit", "*gin.Context"},
	"echo":  {"github.com/labstack/echo/v4", "echolimit", "echo.Context"},
	"chi":   {"github.com/go-chi/chi/v5", "chilimit", "*http.Request"},
	"fiber": {"github.com/gofiber/fiber/v2", "fiberlimit", "*fiber.Ctx"},
	"http":  {"", "httplimit", "*http.Request"},
}

// place is where the program's buckets are, and whether it says what to do when they can't be reached.
type place struct {
	Redis     string // a URL; "": in the process
	OnFailure bool
}

// code is a whole program that limits as the settings do, and those of its lines that do it.
func (s *settings) code(framework string, at place) (c code, err error) {
	c.Framework = framework
	adapter, policy := adapters[framework], s.policy("demo")
	literals := func(limits []core.Limit) (list []string) {
		for _, l := range limits {
			list = append(list, literal(l))
		}
		return list
	}
	limits, overrides := literals(policy.Limits), map[string][]string{}
	for key, list := range policy.Overrides {
		overrides[key] = literals(list)
	}
	var used core.Units
	if s.Second.Used != s.Second.Cost {
		used = s.used()
	}
	var text strings.Builder
	err = programTemplate.Execute(&text, map[string]any{
		"Framework": framework, "Import": adapter.Import, "Adapter": adapter.Adapter, "Arg": adapter.Arg,
		"Plain": framework == "chi" || framework == "http", "NetHTTP": adapter.Arg == "*http.Request",
		"UsesTime": strings.Contains(strings.Join(limits, ""), "time."),
		"Limits":   limits, "Overrides": overrides, "Headers": styleNames[s.Headers],
		"Key": adapter.Adapter + "." + keyCalls[s.Key], "Cost": s.Cost, "Units": s.charged(), "Used": used,
		"Redis": at.Redis, "OnFailure": at.OnFailure,
		"PerIP": at.Redis == "" && s.Key == "ip" && len(limits) == 1 && s.Cost == 1 && s.Headers == "default", // the short form
	})
	if err != nil {
		return c, err
	}
	formatted, err := format.Source([]byte(text.String()))
	c.Program = string(formatted)
	_, lines, _ := strings.Cut(c.Program, "func main() {\n")
	lines, _, _ = strings.Cut(lines, "\n\n")
	c.Lines = strings.ReplaceAll("\n"+lines, "\n\t", "\n")[1:]
	return c, err
}

var (
	keyCalls   = map[string]string{"client": `Global("demo")`, "user": fmt.Sprintf("ByHeader(%q)", userHeader), "ip": "ByIP()"}
	styleNames = map[string]string{
		"legacy": "core.HeadersLegacy", "draft8": "core.HeadersDraft8", "draft6": "core.HeadersDraft6", "none": "core.HeadersNone",
	}
)

// literal is a limit as Go.
func literal(l core.Limit) string {
	if l.Mode == core.Concurrent {
		return fmt.Sprintf("core.InFlight(%d).WithName(%q)", l.Capacity, l.Name)
	}
	text := fmt.Sprintf("core.Per(%s, %s).WithBurst(%d)", strconv.FormatFloat(l.RefillRate, 'f', -1, 64), interval(l.RefillInterval), l.Capacity)
	if l.Mode != core.Continuous {
		text += ".WithMode(core." + map[core.Mode]string{core.Stepped: "Stepped", core.Aligned: "Aligned"}[l.Mode] + ")"
	}
	if l.Name != "" {
		text += fmt.Sprintf(".WithName(%q)", l.Name)
	}
	if l.Unit != "" {
		text += fmt.Sprintf(".WithUnit(%q)", l.Unit)
	}
	return text
}

// interval is a duration as Go, in the largest unit that counts it in whole numbers.
func interval(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{core.Month, "core.Month"}, {time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}, {1, "time.Nanosecond"}} {
		if n := d / unit.d; d%unit.d == 0 && n == 1 {
			return unit.name
		} else if d%unit.d == 0 {
			return fmt.Sprintf("%d*%s", n, unit.name)
		}
	}
	return ""
}
