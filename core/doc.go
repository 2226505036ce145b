// Package core limits rates with token buckets. It knows no web framework: the
// adapters beside it turn it into middleware. Jobs and clients use it directly.
//
// See [docs/README.md].
//
// [docs/README.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/README.md
package core
