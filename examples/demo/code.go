package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/format"
	"net/http"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// code is what to copy: a program with the limits in force, and commands that set the same limits and send a request.
type code struct {
	Go   string `json:"go"`
	Curl string `json:"curl"`
}

// getCode writes the settings in force as code, for a framework and a user.
func (d *demo) getCode(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	framework, user := r.FormValue("framework"), r.FormValue("user")
	if _, ok := adapters[framework]; !ok {
		framework = frameworks[0].name
	}
	if user == "" {
		user = users[0]
	}
	s := d.scene.Load().own()
	text, err := s.program(framework)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, map[string]string{"error": "these settings can't be written as Go"})
		return
	}
	writeJSON(w, http.StatusOK, code{Go: text, Curl: s.curl("http://"+r.Host, framework, user[:min(len(user), maxUser)])})
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

// program is a whole program that limits as the settings do.
func (s *settings) program(framework string) (string, error) {
	adapter := adapters[framework]
	policy := s.policy()
	var limits []string
	for _, l := range policy.Limits {
		limits = append(limits, literal(l))
	}
	var text strings.Builder
	err := programTemplate.Execute(&text, map[string]any{
		"Framework": framework, "Import": adapter.Import, "Adapter": adapter.Adapter, "Arg": adapter.Arg,
		"Plain": framework == "chi" || framework == "http", "NetHTTP": adapter.Arg == "*http.Request",
		"UsesTime": strings.Contains(strings.Join(limits, ""), "time."),
		"Policy":   policy, "Limits": limits, "Headers": styleNames[s.Headers],
		"Key": adapter.Adapter + "." + keyCalls[s.Key], "Cost": s.Cost, "Units": s.units(),
	})
	if err != nil {
		return "", err
	}
	formatted, err := format.Source([]byte(text.String()))
	return string(formatted), err
}

var (
	keyCalls   = map[string]string{"client": `Global("demo")`, "user": fmt.Sprintf("ByHeader(%q)", userHeader), "ip": "ByIP()"}
	styleNames = map[string]string{
		"legacy": "core.HeadersLegacy", "ietf": "core.HeadersIETF", "draft6": "core.HeadersDraft6", "none": "core.HeadersNone",
	}
)

// literal is a limit as Go.
func literal(l core.Limit) string {
	text := fmt.Sprintf("{Name: %q, Capacity: %d, RefillRate: %s, RefillInterval: %s",
		l.Name, l.Capacity, strconv.FormatFloat(l.RefillRate, 'g', -1, 64), interval(l.RefillInterval))
	if l.Mode != core.Continuous {
		text += ", Mode: core." + map[core.Mode]string{core.Stepped: "Stepped", core.Aligned: "Aligned"}[l.Mode]
	}
	if l.Unit != "" {
		text += fmt.Sprintf(", Unit: %q", l.Unit)
	}
	return text + "}"
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
			return fmt.Sprintf("%d * %s", n, unit.name)
		}
	}
	return ""
}

// curl is commands for a shell: the first sends a request, the second has a demo at url take the same settings.
func (s *settings) curl(url, framework, user string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("# one request, with the headers of its answer\ncurl -i -H %s %s\n\n# these limits, on a demo that runs\ncurl %s \\\n  -H 'Content-Type: application/json' \\\n  -d %s\n",
		quoted(userHeader+": "+user), quoted(url+"/"+framework+"/limited"), quoted(url+"/api/settings"), quoted(string(text)))
}

// quoted is text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
