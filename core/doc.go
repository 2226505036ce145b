// Package core limits rates with token buckets. It knows no web framework: the
// adapters beside it turn it into middleware. Jobs and clients use it directly.
package core
