module github.com/tokenbucket-go/ratelimit/examples/demo/browsertest

go 1.26
