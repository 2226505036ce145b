// A module of its own, so that what renders pages and colours code reaches nobody who uses the library.
module github.com/tokenbucket-go/ratelimit/internal/site

go 1.26.0

require (
	github.com/alecthomas/chroma/v2 v2.27.0
	github.com/yuin/goldmark v1.8.7
	golang.org/x/net v0.62.0
)

require (
	github.com/dlclark/regexp2/v2 v2.2.1 // indirect
	github.com/tokenbucket-go/ratelimit v0.0.0
	github.com/tokenbucket-go/ratelimit/examples/demo/browsertest v0.0.0
)

replace github.com/tokenbucket-go/ratelimit => ../..

replace github.com/tokenbucket-go/ratelimit/examples/demo/browsertest => ../../examples/demo/browsertest
