package main

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The responses that docs/language-models.md shows are those of this example,
// at noon in the middle of March.
func TestResponsesOnThePage(t *testing.T) {
	for _, needed := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../../docs/language-models.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## What clients see\n")
	blocks := regexp.MustCompile("(?ms)^```(?:sh|text)\n(.*?)^```").FindAllStringSubmatch(section, 4)
	if len(blocks) != 4 {
		t.Fatalf("%d blocks, want commands and a response, twice", len(blocks))
	}
	passes, denied := blocks[0][1], blocks[2][1]

	var passed atomic.Int64 // seconds
	clock := func() time.Time { return noon.Add(time.Duration(passed.Load()) * time.Second) }
	release, hold := make(chan struct{}), atomic.Bool{}
	a := start(t, core.NewMemoryStore(core.WithClock(clock)), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hold.Load() {
			waiting(1, release, nil).ServeHTTP(w, r)
			return
		}
		provider(0).ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(release) })
	curl := func(commands, want string) {
		t.Helper()
		commands = strings.ReplaceAll(commands, "curl ", "curl --max-time 60 ")
		commands = strings.ReplaceAll(commands, "localhost:8080/v1/generate", a.url)
		shell := exec.Command("sh", "-e", "-c", commands)
		shell.Stderr = t.Output()
		out, err := shell.Output()
		if err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`(?m)^Date: .*$`).ReplaceAllString(strings.ReplaceAll(string(out), "\r\n", "\n"), "Date: Sun, 15 Mar 2026 12:00:00 GMT")
		if got, want := strings.TrimSpace(got), strings.TrimSpace(want); got != want {
			t.Errorf("the page shows another response; this is the response:\n%s", got)
		}
	}
	curl(passes, blocks[1][1])

	hold.Store(true)
	for _, secret := range []string{"bob-secret", "bob-secret", "bob-secret", "bob-secret", "ann-secret"} {
		if secret == "ann-secret" {
			passed.Store(1) // the sleeps of the commands
		}
		if res := a.ask(t.Context(), t, secret, "Tell me a story", 2000); res.StatusCode != http.StatusOK {
			t.Fatalf("a call of %s: status %d, want 200", secret, res.StatusCode)
		}
	}
	ask, _, _ := strings.Cut(passes, "\n")
	lines := strings.Split(strings.TrimSpace(denied), "\n")
	curl(ask+"\n"+lines[len(lines)-1], blocks[3][1])
}
