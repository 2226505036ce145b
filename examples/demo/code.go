package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// code is what to copy: a program with a chapter's limits.
type code struct {
	Lines   string `json:"lines"` // of the program: those that limit
	Program string `json:"program"`
}

// getCode writes a chapter's settings as code, for a framework.
func (d *demo) getCode(w http.ResponseWriter, r *http.Request) {
	c := d.chapter(r.PathValue("chapter"))
	framework, known := frameworks[r.URL.Query().Get("framework")]
	if c == nil || !known {
		http.NotFound(w, r)
		return
	}
	_, s := c.first()
	redis := d.place.url
	if c.id == "share" || c.id == "lose" {
		redis = cmp.Or(redis, "redis://localhost:6379")
	}
	writeJSON(w, http.StatusOK, s.code(framework, redis, c.id == "lose"))
}

// framework is what differs between the frameworks' programs.
type framework struct {
	path    string // of the framework's package; "": net/http
	adapter string // this library's package for it
	arg     string // a request, as an option's function gets it
	use     string // the lines by which an app uses a limit
	serve   string // and those that follow
}

var frameworks = map[string]framework{
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

// code is a whole program that limits as the settings do, and those of its lines
// that do it, as gofmt would have them. Its buckets are in a Redis, or for "" in
// the process. With onFailure it says what to do when Redis is away.
func (s *settings) code(f framework, redis string, onFailure bool) code {
	lines := s.limitLines(f, redis, onFailure) + f.use
	// used are the imports of those paths that the program uses.
	used := func(paths ...string) (text string) {
		slices.Sort(paths)
		for _, path := range paths {
			if name := path[strings.LastIndex(path, "/")+1:]; strings.Contains(lines+f.serve, name+".") {
				text += "\t" + strconv.Quote(path) + "\n"
			}
		}
		return text
	}
	imports := used("fmt", "log", "net/http", "time") + "\n"
	if f.path != "" {
		imports += "\t" + strconv.Quote(f.path) + "\n\n"
	}
	const module = "github.com/tokenbucket-go/ratelimit/"
	imports += used(module+f.adapter, module+"core", module+"core/redisstore")
	return code{
		Lines:   strings.TrimSuffix(strings.ReplaceAll("\n"+lines, "\n\t", "\n")[1:], "\n"),
		Program: "package main\n\nimport (\n" + imports + ")\n\nfunc main() {\n" + lines + "\n" + f.serve,
	}
}

// limitLines are the lines of a program that make a limit.
func (s *settings) limitLines(f framework, redis string, onFailure bool) string {
	policy := s.policy("demo")
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, "\t"+format+"\n", args...) }
	limits := "[]core.Limit{bucket}"
	if len(policy.Limits) == 1 {
		line("bucket := %s", literal(policy.Limits[0]))
	} else {
		limits = "[]core.Limit" + literals(policy.Limits, "\t")
	}
	if redis == "" && s.Key == "ip" && len(policy.Limits) == 1 && s.Cost == 1 && s.Headers == "default" {
		line("limit := %s.PerIP(bucket)", f.adapter) // the short form
		return text.String()
	}
	rest := ""
	if onFailure {
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
	if redis != "" {
		line("store := core.Must(redisstore.Open(%q))", redis)
		store = "store"
	}
	line("limiter := core.Must(core.NewLimiter(%s, policy))", store)
	line("limit := %s.New(limiter, %s.%s%s)", f.adapter, f.adapter, keyCalls[s.Key], s.options(f))
	return text.String()
}

var (
	keyCalls = map[string]string{
		"client": `Global("demo")`, "user": fmt.Sprintf("ByHeader(%q)", userHeader), "ip": "ByIP()",
	}
	styleNames = map[string]string{
		"legacy": "core.HeadersLegacy", "draft8": "core.HeadersDraft8",
		"draft6": "core.HeadersDraft6", "none": "core.HeadersNone",
	}
)

// options are those of a middleware, each after a comma.
func (s *settings) options(f framework) (text string) {
	option := func(name, function, result string) {
		text += fmt.Sprintf(",\n\t\t%s.%s(func(%s%s { return %s })", f.adapter, name, f.arg, function, result)
	}
	if s.Cost != 1 {
		option("WithCost", ") (int64, error)", fmt.Sprintf("%d, nil", s.Cost))
	}
	for unit, n := range s.units(s.Second.Cost) {
		option("WithUnits", ") (core.Units, error)", fmt.Sprintf("core.Units{%q: %d}, nil", unit, n))
		if s.Second.Used != n {
			option("WithSettle", ", int) core.Units", fmt.Sprintf("core.Units{%q: %d}", unit, s.Second.Used))
		}
	}
	return text
}

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
	rate := strconv.FormatFloat(l.RefillRate, 'f', -1, 64)
	text := fmt.Sprintf("core.Per(%s, %s).WithBurst(%d)", rate, interval(l.RefillInterval), l.Capacity)
	if l.Mode != core.Continuous {
		text += ".WithMode(core." + l.Mode.String() + ")"
	}
	if l.Name != "" {
		text += fmt.Sprintf(".WithName(%q)", l.Name)
	}
	if l.Unit != "" {
		text += fmt.Sprintf(".WithUnit(%q)", l.Unit)
	}
	return text
}

// interval is a duration as Go, in the largest unit that counts it in whole
// numbers.
func interval(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{
		{core.Month, "core.Month"},
		{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"},
	} {
		if n := d / unit.d; d%unit.d == 0 && n == 1 {
			return unit.name
		} else if d%unit.d == 0 {
			return fmt.Sprintf("%d*%s", n, unit.name)
		}
	}
	return fmt.Sprintf("%d*time.Nanosecond", d)
}
