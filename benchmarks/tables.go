package main

import (
	"fmt"
	"slices"
	"strings"
)

// A table has a row for each peer of its columns' benchmarks.
type table struct {
	title, text, head string
	bases             []string // the peers that others are compared with: of each framework one
	columns           []column
}

var pageTables = []table{
	{
		title: "Redis",
		text: "10,000 keys with one limit, all requests allowed. The server's CPU time is that of a decision\n" +
			"with 64 goroutines; bytes are those of one key with its name.",
		head: "decisions/s by goroutines", bases: []string{"redis_rate"},
		columns: []column{
			{"1", "Redis/goroutines=1", "ns/op", perSecond, true},
			{"4", "Redis/goroutines=4", "ns/op", perSecond, true},
			{"64", "Redis/goroutines=64", "ns/op", perSecond, true},
			{"512", "Redis/goroutines=512", "ns/op", perSecond, true},
			{"server CPU µs", "Redis/goroutines=64", "server-ns/op", micros, true},
			{"bytes", "Redis/goroutines=64", "redis-B/key", same, false},
		},
	},
	{
		title: "One key",
		text: "One key that all goroutines share, and one that was denied and asks again. With leases\n" +
			"(`redisstore.WithLease(1000)`) a process takes tokens ahead and decides by itself.",
		head: "one key in Redis", bases: []string{"redis_rate"},
		columns: []column{
			{"decisions/s, 64 goroutines", "OneKey/goroutines=64", "ns/op", perSecond, true},
			{"server CPU µs", "OneKey/goroutines=64", "server-ns/op", micros, false},
			{"decisions/s, 512 goroutines", "OneKey/goroutines=512", "ns/op", perSecond, true},
			{"denied, ns", "Denied", "ns/op", same, true},
		},
	},
	{
		title: "In process",
		text:  "All cores decide at once. Bytes: what the live heap grows by, without the caller's key.",
		head:  "ns a decision", bases: []string{"x-time+sync.Map"},
		columns: []column{
			{"one key", "Memory/keys=1", "ns/op", same, true},
			{"100,000 keys", "Memory/keys=100000", "ns/op", same, true},
			{"bytes a key", "Memory/keys=100000", "heap-B/key", same, false},
		},
	},
	{
		title: "Middleware",
		text: "A request in process, with buckets in memory, by 1,000 API keys. ratelimit sends five header\n" +
			"fields, echo's own two, others three. Ratios are of whole requests.",
		head: "one request", bases: []string{"gin/ulule", "chi/httprate", "echo/own", "fiber/own"},
		columns: []column{
			{"ns", "Middleware", "ns/op", same, true},
			{"allocations", "Middleware", "allocs/op", same, false},
			{"bytes", "Middleware", "B/op", same, false},
		},
	},
	{
		title: "Whole servers",
		text:  "Each in a process of its own, with buckets in Redis, by 10,000 API keys. The clients share the machine.",
		head:  "requests/s by connections", bases: []string{"gin/ulule", "chi/httprate"},
		columns: []column{
			{"8", "Servers/connections=8", "ns/op", perSecond, true},
			{"64", "Servers/connections=64", "ns/op", perSecond, true},
			{"p99 ms", "Servers/connections=64", "p99-ns/op", millis, false},
		},
	},
}

// tables returns the tables of what was measured, in Markdown.
func (r *results) tables() string {
	var b strings.Builder
	for _, t := range pageTables {
		var rows []string
		for _, c := range t.columns {
			for _, peer := range r.peers[c.bench] {
				if !slices.Contains(rows, peer) {
					rows = append(rows, peer)
				}
			}
		}
		if rows == nil {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| %s |", t.title, t.text, t.head)
		for _, c := range t.columns {
			fmt.Fprintf(&b, " %s |", c.head)
		}
		fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" ---: |", len(t.columns)))
		for _, peer := range rows {
			fmt.Fprintf(&b, "| %s |", peer)
			for _, c := range t.columns {
				fmt.Fprintf(&b, " %s |", r.cell(c, peer, t.base(peer)))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// base returns the peer that another is compared with.
func (t table) base(peer string) string {
	for _, base := range t.bases {
		if framework(base) == framework(peer) {
			return base
		}
	}
	return ""
}

// framework returns "gin" of "gin/ulule", and nothing of a peer without one.
func framework(peer string) string {
	name, _, found := strings.Cut(peer, "/")
	if !found {
		return ""
	}
	return name
}
