package main

// framework is what sets an adapter apart: names, types, and sentences about
// the framework in its documentation.
type framework struct {
	Dir     string            // of the adapter
	Package string            // its name
	Files   map[string]string // the generated files, and their templates

	// Of an adapter for a framework's next version.
	Former  string   // the adapter for the version before
	Tests   []string // its tests that hold for this one too
	Changes []string // what to replace in them, in pairs

	// The package's comment.
	Title   string   // of the framework
	Left    string   // how middleware leaves a value with a request
	Setup   []string // lines of the example in front of Install
	Install string   // the line that installs a middleware, %s
	Also    string   // a paragraph at the end

	// Types.
	Imports    []string // of api.go; "" is an empty line
	C          string   // what key functions and options receive
	Arg        string   // its name
	Middleware string   // what New returns
	Key        string   // a key as the engine gets it, %s
	From       string   // the parameter of FromContext
	FromArg    string   // its name
	Params     string   // of OnDenied and OnError, in front of the result or the error
	Returns    string   // what these return, after a space
	Fields     string   // of fiber's context: the method that returns the RequestCtx
	Context    string   // of fiber's context: the method that returns the request's context
	Version    int      // of fiber
	Pooled     bool     // a Request of the context, which is an interface, would take an allocation, so they are reused
	OwnErrors  bool     // the framework has errors with a status, which errorStatus returns

	// Sentences.
	Error       string   // the error that a refusal is, with its article; "" if it is a problem body
	FieldsNote  string   // about header fields
	Whose       string   // after "the decision about the request"
	KeyErrors   string   // how an error of a key function is answered
	Spelling    string   // of a header field that came several times
	HeaderNote  string   // about ByHeader
	Param       string   // what ByParam limits by
	Pattern     string   // an example of a route
	Route       string   // which requests have no route
	RouteAdvice string   // what to do about it
	Over        string   // when the response is over, for WithSettle
	TakenOver   string   // about slots of connections that handlers take over
	Refund      []string // paragraphs about the status, for WithRefund
	Replaces    string   // what OnDenied replaces, and when it does not
	DeniedNote  string   // a paragraph about OnDenied
}

var frameworks = []framework{gin, echo4, echo5, chi, fiber2, fiber3, nethttp}

const (
	module = "github.com/tokenbucket-go/ratelimit/"

	replacesProblem = "429 and the problem body. The header fields are already set. The handlers after this one don't run. If denied writes nothing, as one that only logs,"
	replacesWriter  = "429 and the problem body: write the status, then the body. The header fields are already set. If denied writes nothing, as one that only logs,"
	replacesError   = "the error with status 429: the middleware returns what denied returns. The header fields are already set. If it returns nil and wrote nothing, as one that only logs,"

	paramOfRoute = "a parameter of the route, such as id in /items/{id}, percent-decoded."
)

var gin = framework{
	Dir: "ginlimit", Package: "ginlimit", Files: map[string]string{"api.go": "api.go.tmpl"},
	Title: "gin", Left: "c.Set", Setup: []string{"r := gin.Default()"}, Install: "r.Use(%s)",
	Imports: []string{"github.com/gin-gonic/gin", "", module + "core", module + "core/adapter", module + "core/middleware"},
	C:       "*gin.Context", Arg: "c", Middleware: "gin.HandlerFunc", Key: "%s", From: "c *gin.Context", FromArg: "c",
	Params: "c *gin.Context", OwnErrors: true,
	KeyErrors: "Any other error is answered with 500 and logged, unless the function has answered the request itself with a status below 500, such as with c.AbortWithStatus.",
	Param:     paramOfRoute, Pattern: "/items/:id", Route: "Requests that match no route share one key.",
	RouteAdvice: "limit requests without a route by another key",
	Over:        "the handlers behind this one have returned or panicked, also streamed ones.",
	Refund: []string{"If the handler writes nothing and either calls c.Error or panics, the status counts as 500, because middleware in front of this one may answer later. Otherwise the status that was written counts, even if the handler panics after it. " +
		"In gin v1.9.0 and older, a status that is set after the response has begun replaces it, as gin.Recovery behind this middleware does. Put gin.Recovery in front."},
	Replaces: replacesProblem,
}

// An HTTP router's requests are those of net/http.
var nethttp = framework{
	Dir: "httplimit", Package: "httplimit", Files: map[string]string{"api.go": "api.go.tmpl"},
	Title: "net/http", Left: "context.WithValue", Install: `http.Handle("/", %s(handler))`,
	Also:    "It works with every router that takes func(http.Handler) http.Handler. For chi, use package chilimit.",
	Imports: []string{"context", "net/http", "", module + "core", module + "core/adapter", module + "core/middleware"},
	C:       "*http.Request", Arg: "r", Middleware: "func(http.Handler) http.Handler", Key: "%s", From: "ctx context.Context", FromArg: "ctx",
	Params:    "w http.ResponseWriter, r *http.Request",
	Whose:     " whose context is ctx",
	KeyErrors: "An [http.MaxBytesError] is answered with 413, any other error with 500, and it is logged: see [OnError].",
	Param:     "a wildcard of the route, such as id in /items/{id}. It works only behind the mux, where the route is known.",
	Pattern:   "/items/{id}", Route: "Requests that match no pattern share one key. In front of the mux no pattern is known yet: use [ByRouteOf]. Other routers than http.ServeMux need a key function of one line: see docs/adapters.md.",
	RouteAdvice: "install the limiter behind the mux, or use httplimit.ByRouteOf(mux); for other routers see docs/adapters.md",
	Over:        "the handler has returned or panicked, also a streamed one.",
	Refund:      []string{"The status that was written counts, even if the handler fails after it: an upstream that hangs up after a 200 counts as 200. A panic before anything is written counts as 500, a hijacked connection as 200."},
	Replaces:    replacesWriter,
}

var chi = func() framework {
	f := nethttp
	f.Dir, f.Package, f.Title = "chilimit", "chilimit", "chi"
	f.Setup, f.Install, f.Also = []string{"r := chi.NewRouter()"}, "r.Use(%s)", ""
	f.Param = paramOfRoute
	f.Route = "The pattern includes the prefixes of mounted routers, wherever the middleware is installed. Requests that match no route share one key."
	f.RouteAdvice = "install the limiter with Use or With, not around the router, and limit requests without a route by another key"
	return f
}()

const echoRefund = "refund is called when the handler, other middleware or the app's error handler writes the response's header through echo. If the handler returns nil and writes nothing, refund is called with the 200 that net/http sends. " +
	"It is called again if middleware in front writes another status, unless the tokens were already returned. A hijacked connection, such as a WebSocket's, counts as 200, however its handler ends."

var echo4 = framework{
	Dir: "echolimit", Package: "echolimit", Files: map[string]string{"api.go": "api.go.tmpl", "request.go": "echo.go.tmpl"},
	Title: "echo (v4)", Left: "c.Set", Setup: []string{"e := echo.New()"}, Install: "e.Use(%s)",
	Imports: []string{"github.com/labstack/echo/v4", "", module + "core", module + "core/adapter", module + "core/middleware"},
	C:       "echo.Context", Arg: "c", Middleware: "echo.MiddlewareFunc", Key: "%s", From: "c echo.Context", FromArg: "c",
	Params: "c echo.Context", Returns: " error", Pooled: true, OwnErrors: true,
	Error:     "an [echo.HTTPError]",
	KeyErrors: "An [echo.HTTPError] below 500 is answered as it is, any other error with 500, and it is logged.",
	Param:     paramOfRoute, Pattern: "/items/:id", Route: "Requests that match no route share one key. In e.Pre the route is not known yet.",
	RouteAdvice: "install the limiter with e.Use, not e.Pre, and limit requests without a route by another key",
	Over:        "the handler has returned or panicked, also a streamed one. The status of an error that the handler returned is that of its [echo.HTTPError], or 500: the app's error handler runs later. A hijacked connection counts as 200.",
	Refund: []string{echoRefund, "Echo does not tell middleware how a request ends. If middleware in front drops the handler's error and writes nothing, refund is not called and the tokens stay taken. Install such middleware behind the limiter. " +
		"What is written to the http.ResponseWriter below echo's does not count either."},
	Replaces: replacesError,
}

var echo5 = func() framework {
	f := echo4
	f.Dir, f.Title, f.Also = "echolimit/v5", "echo (v5)", "The package for echo v4 is echolimit, without /v5."
	f.Imports = []string{"github.com/labstack/echo/v5", "", module + "core", module + "core/adapter", module + "core/middleware"}
	f.Former, f.Tests = "echolimit", []string{"conformance", "refund"}
	f.Changes = []string{
		"labstack/echo/v4", "labstack/echo/v5", `ratelimit/echolimit"`, `ratelimit/echolimit/v5"`,
		"echo.Context.QueryParam", "(*echo.Context).QueryParam", "func(err error, c echo.Context)", "func(c *echo.Context, err error)", "echo.Context", "*echo.Context",
		"c.Echo().DefaultHTTPErrorHandler(err, c)", "echo.DefaultHTTPErrorHandler(false)(c, err)", "e.DefaultHTTPErrorHandler(err, c)", "echo.DefaultHTTPErrorHandler(false)(c, err)",
		"WithInternal", "Wrap", "c.Error(errNotFound)", "c.Echo().HTTPErrorHandler(c, errNotFound)",
	}
	f.C, f.From, f.Params, f.Pooled = "*echo.Context", "c *echo.Context", "c *echo.Context", false
	f.KeyErrors = "An [echo.HTTPError] below 500, or another error of echo with such a status, is answered as it is, any other error with 500, and it is logged."
	f.Over = "the handler has returned or panicked, also a streamed one. The status of an error that the handler returned is the one that echo gives it, or 500: the app's error handler runs later. A hijacked connection counts as 200."
	f.Refund = []string{echoRefund, "Echo does not tell middleware how a request ends. In two cases refund is not called and the tokens stay taken: middleware in front drops the handler's error and writes nothing, or it wraps the response and nothing is written to it. " +
		"Install such middleware behind the limiter. What is written to the http.ResponseWriter below echo's, or to a response in a wrapper without Unwrap, does not count either."}
	return f
}()

const (
	fiberOver = "the handler has returned or panicked, or, if its body is a stream, when that was sent or the client has gone, or, if the connection was hijacked, as for a WebSocket, when its handler has returned. " +
		"Of the last two, c is another one for the same request: it has its header, body and Locals, but no route. If the client has gone, the function that writes the stream may still run, until its next flush fails. " +
		"If it goes before the answer to its upgrade is sent, or sends Connection: close with its upgrade, fasthttp drops the request: settle is not called, and what was charged stays."
	fiberErrors = " The status of an error that the handler returned is as for [WithRefund]."
)

var fiber2 = framework{
	Dir: "fiberlimit", Package: "fiberlimit", Files: map[string]string{"api.go": "api.go.tmpl", "middleware.go": "fiber.go.tmpl"},
	Title: "fiber (v2)", Left: "c.Locals", Setup: []string{"app := fiber.New()"}, Install: "app.Use(%s)",
	Imports: []string{"github.com/gofiber/fiber/v2", "", module + "core", module + "core/adapter", module + "core/middleware", module + "internal/fast"},
	C:       "*fiber.Ctx", Arg: "c", Middleware: "fiber.Handler", Key: "fast.CopyKey(%s)", From: "c *fiber.Ctx", FromArg: "c",
	Params: "c *fiber.Ctx", Returns: " error", OwnErrors: true, Version: 2, Fields: "Context", Context: "UserContext",
	Error: "a [fiber.Error]", FieldsNote: "A handler that replaces the whole response, as a proxy does, removes them.",
	KeyErrors: "A [fiber.Error] below 500 is answered as it is, any other error with 500, and it is logged.",
	Spelling:  ", under any spelling,", HeaderNote: "Of several User-Agent or Content-Type fields the last counts, because fasthttp keeps only that one.",
	Param: paramOfRoute, Pattern: "/items/:id",
	Route:       `Fiber knows the pattern only in handlers of the route itself: app.Get("/items/:id", limit, handler). In app.Use all requests share one key.`,
	RouteAdvice: "install the limiter at the route, as in app.Get(path, limiter, handler)",
	Over:        fiberOver + fiberErrors,
	TakenOver: "A connection that a handler has hijacked, as for a WebSocket, has its slots until the hijack handler has returned. " +
		"If a client goes, the function that writes its stream may still run, without a slot: if it works long between flushes, call [Allow] in the handler instead, and release the slots where that function ends. " +
		"The slots of a request that fasthttp drops, see [WithSettle], come back after a garbage collection.",
	Refund: []string{"If the handler returns an error, the code of its [fiber.Error] counts. Of any other error the status counts that the app's error handler sends: then refund is called after the response, with another c for the same request, which has its header, body and Locals, but no route. " +
		"A panic counts as 500, whatever middleware in front answers."},
	Replaces:   replacesError,
	DeniedNote: "Fiber's cache middleware keeps what denied writes, whatever its status. Behind it, return an error, which it does not keep.",
}

var fiber3 = func() framework {
	f := fiber2
	f.Dir, f.Title = "fiberlimit/v3", "fiber (v3)"
	f.Also = "With a custom context of the app's own, key and option functions receive that: c.(*myCtx). The package for fiber v2 is fiberlimit, without /v3."
	f.Imports = []string{"github.com/gofiber/fiber/v3", "", module + "core", module + "core/adapter", module + "core/middleware", module + "internal/fast"}
	f.Former, f.Tests = "fiberlimit", []string{"conformance"}
	f.Changes = []string{
		"gofiber/fiber/v2", "gofiber/fiber/v3", `ratelimit/fiberlimit"`, `ratelimit/fiberlimit/v3"`, "*fiber.Ctx", "fiber.Ctx",
		"		DisableStartupMessage: true,\n", "",
		"SetUserContext", "SetContext", "UserContext()", "Context()", "Context().Hijack", "RequestCtx().Hijack",
	}
	f.C, f.From, f.Params, f.Fields, f.Context, f.Pooled = "fiber.Ctx", "c fiber.Ctx", "c fiber.Ctx", "RequestCtx", "Context", true
	f.Version = 3
	f.Over = fiberOver + " If fiber's timeout middleware behind this one gives up on a handler, settle is called then, while the handler may still use c." + fiberErrors
	f.DeniedNote = ""
	return f
}()
