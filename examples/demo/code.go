package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	framework := r.URL.Query().Get("framework")
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
	writeJSON(w, http.StatusOK, s.code(framework, at))
}

// adapters are what differs between the frameworks' programs: the framework's import, our package, what a request is, how an app uses a
// limit, and how it serves.
var adapters = map[string]struct{ Import, Adapter, Arg, Use, Serve string }{
	"gin": {"github.com/gin-gonic/gin", "ginlimit", "*gin.Context", `	r := gin.Default()
	r.Use(limit)
`, `	r.GET("/", func(c *gin.Context) { c.String(200, "hello") })
	log.Fatal(r.Run(":8080"))
}
`},
	"echo": {"github.com/labstack/echo/v4", "echolimit", "echo.Context", `	e := echo.New()
	e.Use(limit)
`, `	e.GET("/", func(c echo.Context) error { return c.String(200, "hello") })
	log.Fatal(e.Start(":8080"))
}
`},
	"chi": {"github.com/go-chi/chi/v5", "chilimit", "*http.Request", `	r := chi.NewRouter()
	r.Use(limit)
`, `	r.Get("/", hello)
	log.Fatal(http.ListenAndServe(":8080", r))
}
` + helloHandler},
	"fiber": {"github.com/gofiber/fiber/v2", "fiberlimit", "*fiber.Ctx", `	app := fiber.New()
	app.Use(limit)
`, `	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("hello") })
	log.Fatal(app.Listen(":8080"))
}
`},
	"http": {"", "httplimit", "*http.Request", `	http.Handle("/", limit(http.HandlerFunc(hello)))
`, `	log.Fatal(http.ListenAndServe(":8080", nil))
}
` + helloHandler},
}

const helloHandler = `
func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }
`

// place is where the program's buckets are, and whether it says what to do when they can't be reached.
type place struct {
	Redis     string // a URL; "": in the process
	OnFailure bool
}

// code is a whole program that limits as the settings do, and those of its lines that do it. It is as gofmt would have it.
func (s *settings) code(framework string, at place) (c code) {
	adapter := adapters[framework]
	lines := s.limitCode(framework, at) + adapter.Use
	used := func(imports ...string) (text string) {
		slices.Sort(imports)
		for _, path := range imports {
			if name := path[strings.LastIndex(path, "/")+1:]; strings.Contains(lines+adapter.Serve, name+".") {
				text += "\t" + strconv.Quote(path) + "\n"
			}
		}
		return text
	}
	imports := used("fmt", "log", "net/http", "time") + "\n"
	if adapter.Import != "" {
		imports += "\t" + strconv.Quote(adapter.Import) + "\n\n"
	}
	const module = "github.com/tokenbucket-go/ratelimit/"
	imports += used(module+adapter.Adapter, module+"core", module+"core/redisstore")
	return code{
		Framework: framework,
		Lines:     strings.TrimSuffix(strings.ReplaceAll("\n"+lines, "\n\t", "\n")[1:], "\n"),
		Program:   "package main\n\nimport (\n" + imports + ")\n\nfunc main() {\n" + lines + "\n" + adapter.Serve,
	}
}

// limitCode is the lines of a program that limit.
func (s *settings) limitCode(framework string, at place) string {
	adapter, policy := adapters[framework].Adapter, s.policy("demo")
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, "\t"+format+"\n", args...) }
	limits := "[]core.Limit{bucket}"
	if len(policy.Limits) == 1 {
		line("bucket := %s", literal(policy.Limits[0]))
	} else {
		limits = "[]core.Limit" + literals(policy.Limits, "\t")
	}
	if at.Redis == "" && s.Key == "ip" && len(policy.Limits) == 1 && s.Cost == 1 && s.Headers == "default" { // the short form
		line("limit := %s.PerIP(bucket)", adapter)
		return text.String()
	}
	rest := ""
	if at.OnFailure {
		line("// OnFailure is one of core.FailLocal, core.FailOpen, core.FailClosed.")
		rest += ",\n\t\tOnFailure: core.FailLocal"
	}
	if style := styleNames[s.Headers]; style != "" {
		rest += ", Headers: " + style
	}
	for key, list := range policy.Overrides {
		rest += fmt.Sprintf(",\n\t\tOverrides: map[string][]core.Limit{%q: %s}", key, literals(list, "\t\t"))
	}
	line("policy := core.Policy{Name: \"demo\", Limits: %s%s}", limits, rest)
	store := "core.NewMemoryStore()"
	if at.Redis != "" {
		line("store := core.Must(redisstore.Open(%q))", at.Redis)
		store = "store"
	}
	line("limiter := core.Must(core.NewLimiter(%s, policy))", store)
	line("limit := %s.New(limiter, %s.%s%s)", adapter, adapter, keyCalls[s.Key], s.options(adapter, adapters[framework].Arg))
	return text.String()
}

// options are those of a middleware, each after a comma. arg is what a request is to it.
func (s *settings) options(adapter, arg string) (text string) {
	if s.Cost != 1 {
		text += fmt.Sprintf(",\n\t\t%s.WithCost(func(%s) (int64, error) { return %d, nil })", adapter, arg, s.Cost)
	}
	for unit, n := range s.charged() {
		text += fmt.Sprintf(",\n\t\t%s.WithUnits(func(%s) (core.Units, error) { return core.Units{%q: %d}, nil })", adapter, arg, unit, n)
		if s.Second.Used != n {
			text += fmt.Sprintf(",\n\t\t%s.WithSettle(func(%s, int) core.Units { return core.Units{%q: %d} })", adapter, arg, unit, s.Second.Used)
		}
	}
	return text
}

var (
	keyCalls   = map[string]string{"client": `Global("demo")`, "user": fmt.Sprintf("ByHeader(%q)", userHeader), "ip": "ByIP()"}
	styleNames = map[string]string{
		"legacy": "core.HeadersLegacy", "draft8": "core.HeadersDraft8", "draft6": "core.HeadersDraft6", "none": "core.HeadersNone",
	}
)

// literals are limits as Go, each on a line of its own.
func literals(limits []core.Limit, indent string) string {
	text := "{\n"
	for _, l := range limits {
		text += indent + "\t" + literal(l) + ",\n"
	}
	return text + indent + "}"
}

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
