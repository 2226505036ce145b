package middleware

// Procedure is the full name of what a call calls, such as
// /files.v1.Files/Read. Embedded in an adapter's request it answers what
// extractors for HTTP ask: a call is a POST whose path and route are the
// procedure, without cookies, query and parameters.
type Procedure string

// Method returns POST.
func (Procedure) Method() string { return "POST" }

// Path returns the procedure.
func (p Procedure) Path() string { return string(p) }

// Route returns the procedure.
func (p Procedure) Route() (string, bool) { return string(p), true }

// ContentLength returns -1: the size is not known.
func (Procedure) ContentLength() int64 { return -1 }

// Cookie returns "".
func (Procedure) Cookie(string) string { return "" }

// Query returns "".
func (Procedure) Query(string) string { return "" }

// Param returns "".
func (Procedure) Param(string) string { return "" }
