package main

// interceptor is what sets a package beyond HTTP apart. Each is in a module of
// its own.
type interceptor struct {
	Dir     string // of the package
	Package string // its name

	Imports []string // of api.go; "" is an empty line
	Code    string   // the type of codes for WithSettle and WithRefund; "" if these find the answer in the Call
	Returns string   // what OnDenied and OnError return
	Stored  string   // the function that returns what is stored with a context
	Method  string   // the field of Call with the full method, where there are streams
	Streams bool     // there are streams, and peers
	Own     bool     // config has a field own, for options of this package alone

	// Words and sentences.
	Request, Handler string   // what is limited, and what answers it
	Constructors     string   // which have options
	Together         string   // which have rules
	Panics           string   // what constructors do, with a verb
	Whose            string   // behind "the decision about the call"
	KeyErrors        string   // how an error of a key function is answered
	Header           string   // what ByHeader limits by; "" if there is none
	Fields           string   // where proxies report addresses
	Forwarded        string   // an example of that
	MethodNote       string   // about ByMethod
	ValueNote        string   // about ByContextValue
	Units            string   // an example of units
	Taken            string   // an example of what WithSettle returns
	Settled          string   // behind "also if the client has gone"
	Refund           []string // paragraphs of WithRefund
	Answer           string   // of OnDenied, up to the default answer
	AnswerNote       string   // about it
}

var interceptors = []interceptor{grpc, connect, mcp, mcpgo}

var rpcImports = []string{module + "core", module + "core/adapter", module + "core/middleware"}

var grpc = interceptor{
	Dir: "grpclimit", Package: "grpclimit", Imports: append([]string{"context", "fmt", "", "google.golang.org/grpc/codes", ""}, rpcImports...),
	Code: "codes.Code", Returns: "error", Stored: "stored", Method: "FullMethod", Streams: true,
	Request: "call", Handler: "handler", Constructors: "[Unary] and [Stream]", Together: "[UnaryTogether] and [StreamTogether]", Panics: "Unary and Stream panic",
	KeyErrors: "That and an empty key are answered with InvalidArgument. An error with a status of the client, such as Unauthenticated, is answered as it is, and any other error with Internal.",
	Fields:    "metadata", Forwarded: "x-forwarded-for",
	MethodNote: "With grpc.UnknownServiceHandler clients can make up methods: join it with a key of the client.",
	Units:      "bytes", Settled: "; if the handler panics, with codes.Internal",
	Refund: []string{"WithRefund returns a call's tokens if refund returns true for the code of its answer. Use it to count failed logins only, or not to count errors of the service. A panic of the handler counts as codes.Internal."},
	Answer: "the error that it returns. If it returns nil",
}

var connect = func() interceptor {
	c := grpc
	c.Dir, c.Package, c.Imports = "connectlimit", "connectlimit", append([]string{"context", "fmt", "", "connectrpc.com/connect", ""}, rpcImports...)
	c.Code, c.Method = "connect.Code", "Procedure"
	c.Constructors, c.Together, c.Panics = "[New] and [NewTogether]", "[NewTogether]", "New panics"
	c.KeyErrors = "That and an empty key are answered with invalid_argument. A [connect.Error] with a code of the client, such as unauthenticated, is answered as it is, and any other error with internal."
	c.Fields, c.Forwarded, c.MethodNote = "a header field", "X-Forwarded-For", ""
	c.Header = "a header field of the request, such as an API key. If the field came several times with different values, the answer is invalid_argument. See [adapter.ByHeader]."
	c.Settled = ". The code is 0 if the handler succeeded, and connect.CodeInternal if it panicked"
	c.Refund = []string{
		"WithRefund returns a call's tokens if refund returns true for the code of its answer: 0 if it succeeded. Use it to count failed logins only, or not to count errors of the service. A panic of the handler counts as connect.CodeInternal.",
		"The code is that of the handler. If Connect can't send the answer of a unary call, such as one beyond connect.WithSendMaxBytes, clients get another one.",
	}
	return c
}()

var mcp = interceptor{
	Dir: "mcplimit", Package: "mcplimit", Imports: append([]string{"context", "", "github.com/modelcontextprotocol/go-sdk/mcp", ""}, rpcImports...),
	Returns: "(mcp.Result, error)", Stored: "middleware.Stored", Own: true,
	Request: "request", Handler: "handler", Constructors: "[New] and [NewTogether]", Together: "[NewTogether]", Panics: "New panics",
	Whose:     " that a handler or a tool has the context of",
	KeyErrors: "That and an empty key are answered with the code of invalid params. A *jsonrpc.Error is answered as it is, unless its code is that of an internal error. Any other error is answered as an internal error.",
	Header:    "a header field of the HTTP request, such as an API key. If the field came several times with different values, the code is that of invalid params. The keys are those of ByHeader for HTTP. Requests of stdio, in-memory transports and SSE have no key.",
	ValueNote: "In a session the values are those of the HTTP request that opened it: see [Call.Context].",
	Units:     "tokens of a language model", Taken: "such as the tokens of the text in the Call's Result", Settled: " or the handler panicked: then the Call's Err is not nil",
	Refund:     []string{"WithRefund returns a request's tokens if refund returns true for the answer, which the Call has. WithRefund((*Call).Failed) counts only what succeeds."},
	Answer:     "the result or the error that it returns. If both are nil",
	AnswerNote: "A result must be of the type of the Call's Method: *mcp.CallToolResult for tools/call.",
}

var mcpgo = func() interceptor {
	m := mcp
	m.Dir, m.Package, m.Imports, m.Own = "mcplimit/mcpgo", "mcpgo", append([]string{"context", "", "github.com/mark3labs/mcp-go/mcp", ""}, rpcImports...), false
	m.Returns, m.Request, m.Handler = "(*mcp.CallToolResult, error)", "call", "tool"
	m.Whose = " that a tool has the context of"
	m.KeyErrors = "That, an empty key and other errors are answered with a result that has isError and does not show the error."
	m.Header = "a header field of the HTTP request, such as an API key. The keys are those of ByHeader for HTTP. Without HTTP there is no key."
	m.ValueNote, m.Settled = "", " or the tool panicked: then the Call's Err is not nil"
	m.Refund = []string{"WithRefund returns a call's tokens if refund returns true for the answer, which the Call has. WithRefund((*Call).Failed) counts only what succeeds."}
	m.AnswerNote = "Clients see the text of an error."
	return m
}()
