package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

// urls lead nowhere.
var urls = []string{"http://127.0.0.1:1/x", "redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:1/0"}

// FuzzCommandLines types mistakes: whatever the words are, a command ends with
// a documented code, and says why if it did nothing. No server runs, so nothing
// is asked.
func FuzzCommandLines(f *testing.F) {
	for _, line := range append(onRedis, "top http://127.0.0.1:1/x", "copy redis://127.0.0.1:1 redis://127.0.0.1:2", "key -ip 192.0.2.1", "hash k", "check p.yaml",
		"diff p.yaml p.yaml", "replay -limit 1/s a.log", "get -p x", "get -u redis://127.0.0.1:1/0 -tls", "list -most 0", "completion bash", "-h", "top -user a -header b") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Fields(line)
		for _, w := range words {
			if strings.ContainsAny(w, "/") && !slices.Contains(urls, w) || strings.Contains(w, "watch") || strings.Contains(w, "html") || strings.HasPrefix(w, "-s") || w == "--" {
				return // it would ask another server, go on, or write a file
			}
		}
		if len(words) > 0 && slices.ContainsFunc(onRedis, func(line string) bool { return strings.HasPrefix(line, words[0]+" ") }) {
			words = append(words, "-h", "127.0.0.1", "-p", "1")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var o, e bytes.Buffer
		code := table.Run(ctx, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e, Env: func(string) string { return "" }}, append(words, "-timeout", "10ms"))
		switch code {
		case cli.OK, cli.Found:
		case cli.Misused, cli.Unavailable:
			if strings.TrimSpace(strings.TrimPrefix(e.String(), "ratelimit:")) == "" {
				t.Fatalf("a failure says why: %q", line)
			}
		default:
			t.Fatalf("the code %d is not documented: %q", code, line)
		}
	})
}
