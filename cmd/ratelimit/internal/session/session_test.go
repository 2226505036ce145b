package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/session"
)

// logOf is a log of one client that sends n requests in one second.
func logOf(n int) string {
	line := `203.0.113.7 - - [01/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5` + "\n"
	return strings.Repeat(line, n)
}

func read(t *testing.T, n int) *session.Session {
	t.Helper()
	s, err := session.Read("access.log", strings.NewReader(logOf(n)), session.Options{}, func(int64) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A log is read once, and each limit that is tried decides it anew.
func TestOneLogThroughSeveralLimits(t *testing.T) {
	s := read(t, 30)
	if s.Requests() != 30 || s.Clients() != 1 {
		t.Fatalf("the log has %d requests of %d clients; want 30 of 1", s.Requests(), s.Clients())
	}
	for _, c := range []struct {
		try     session.Try
		limit   string
		allowed int64
	}{
		{session.Try{Limit: "10/min"}, "10/min", 10},
		{session.Try{Limit: "10/min", Burst: 25}, "10/min burst 25", 25},
		{session.Try{Limit: "10/min burst 25", Rate: 5}, "5/min burst 25", 25},
		{session.Try{Limit: "10/min", Burst: 40}, "10/min burst 40", 30},
	} {
		r, err := s.Decide(t.Context(), c.try, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Outcomes[0].Denied; got != 30-c.allowed {
			t.Errorf("%+v denies %d of 30; want %d", c.try, got, 30-c.allowed)
		}
		if err := r.Search(t.Context()); err != nil {
			t.Fatal(err)
		}
		shown, err := r.Shown()
		if err != nil {
			t.Fatal(err)
		}
		if shown.Limit != c.limit || shown.Per != "min" {
			t.Errorf("%+v is shown as %q, per %q; want %q, per min", c.try, shown.Limit, shown.Per, c.limit)
		}
		if denied := fmt.Sprintf("%d of 30", 30-c.allowed); c.allowed < 30 && !strings.Contains(shown.Lead+shown.Report, denied) {
			t.Errorf("%+v: neither the sentence %q nor the report says %q", c.try, shown.Lead, denied)
		}
		if strings.Contains(shown.Report, " style=") {
			t.Error("the report has attributes that the page's policy forbids")
		}
	}
}

// Mistakes in what is typed name the field, and who cancels gets his own error.
func TestMistakes(t *testing.T) {
	tick := func(int64) error { return nil }
	for _, c := range []struct {
		options session.Options
		want    string
	}{
		{session.Options{Format: "xml"}, `-format "xml"`},
		{session.Options{Zone: "Mars"}, "-zone"},
		{session.Options{Key: "shoe"}, "shoe"},
		{session.Options{Only: "status"}, "status"},
	} {
		if _, err := session.Read("access.log", strings.NewReader(logOf(1)), c.options, tick); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: the error is %v; want one that says %s", c.options, err, c.want)
		}
	}
	if _, err := session.Read("access.log", strings.NewReader("nothing\n"), session.Options{}, tick); err == nil {
		t.Error("a log without a request is no error")
	}
	for _, limit := range []string{"", "60", "0/min", "10/min burst 0", "5 slots of what"} {
		if _, err := read(t, 1).Decide(t.Context(), session.Try{Limit: limit}, func(int) {}); err == nil {
			t.Errorf("the limit %q is no error", limit)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(t, 10_001).Decide(ctx, session.Try{Limit: "10/min"}, func(int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled replay ends with %v", err)
	}
}
