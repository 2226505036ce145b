// A module of its own, so that what drives the browser stays out of the graph of the library's users.
module github.com/tokenbucket-go/ratelimit/examples/demo/browsertest

go 1.26
