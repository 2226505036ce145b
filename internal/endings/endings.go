// Package endings runs the table of docs/middleware.md that says what a limiter
// sees of middleware which answers for the handler, for the tests of each adapter.
package endings

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Case is one request through a middleware, with limiters in front of it or
// behind it.
type Case struct {
	Middleware string // as the table names it
	InFront    bool
	Slots      *core.Limiter // of InFlight(1)
	Calls      *core.Limiter // with a refund that asks See

	seen chan int
}

// Order returns a chain of the middleware and of the limiters, the outermost
// first.
func Order[M any](c Case, use M, limiters ...M) []M {
	if c.InFront {
		return append(limiters, use)
	}
	return append([]M{use}, limiters...)
}

// Request is the request of each case.
func Request() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 64)))
	r.Header.Set("Accept-Encoding", "gzip")
	return r
}

// Ask sends it to h, and returns the status of the answer.
func Ask(h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, Request())
	return w.Code
}

// Key is that of both limiters.
const Key = "all"

// See takes the status that a refund gets. The tokens come back.
func (c Case) See(status int) bool {
	c.seen <- status
	return true
}

// Patience is how long a case may take on a loaded machine.
const Patience = 20 * time.Second

// same are the middleware, and the status that the client gets, of which both
// limiters see that status. The page has no rows for them.
var same = []string{
	"chi: Recoverer | 500",
	"gin: gin.Recovery | 500",
	"echo v5: Recover | 500",
	"echo v4: Gzip | 201",
	"echo v4: Recover | 500",
	"fiber v3: recover.New | 500",
	"fiber v2: timeout.NewWithContext | 408",
	"fiber v2: recover.New | 500",
}

// rows are those of the page's table and of same, each with four cells.
func rows(page string) (list [][]string) {
	for line := range strings.Lines(page) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 4 {
			list = append(list, cells)
		}
	}
	for _, line := range same {
		name, status, _ := strings.Cut(line, " | ")
		list = append(list, []string{name, status, status, status})
	}
	return list
}

// Run has serve send the request of each row of a framework, in both orders,
// and return the status that the client gets. Each case runs as play does:
// synctest.Test, or InRealTime for a server that has goroutines of its own.
func Run(t *testing.T, framework string, play func(*testing.T, func(*testing.T)), serve func(*testing.T, Case) (status int)) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	page, err := os.ReadFile(filepath.Join(filepath.Dir(file), "../../docs/middleware.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, cells := range rows(string(page)) {
		named, ours := strings.CutPrefix(cells[0], framework+": ")
		if !ours {
			continue
		}
		ran++
		for i, order := range []string{"in front", "behind"} {
			if cells[2+i] == "not safe" {
				continue
			}
			t.Run(named+"/"+order, func(t *testing.T) {
				play(t, func(t *testing.T) { row(t, named, cells[1], cells[2+i], i == 0, serve) })
			})
		}
	}
	if ran == 0 {
		t.Fatalf("no row of %s", framework)
	}
}

// InRealTime runs a case as it is.
func InRealTime(t *testing.T, play func(*testing.T)) { play(t) }

func row(t *testing.T, name, client, sees string, inFront bool, serve func(*testing.T, Case) int) {
	c := Case{Middleware: name, InFront: inFront, seen: make(chan int, 10)}
	c.Slots = core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}}))
	c.Calls = core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerDay(5)}}))
	if got := strconv.Itoa(serve(t, c)); got != client {
		t.Errorf("the client got %s; the table says %s", got, client)
	}
	if sees == "–" { // the limiter is not asked
		select {
		case got := <-c.seen:
			t.Errorf("the limiter saw %d; the table says that it is not asked", got)
		default:
		}
		return
	}
	select {
	case got := <-c.seen:
		if strconv.Itoa(got) != sees {
			t.Errorf("the limiter saw %d; the table says %s", got, sees)
		}
	case <-time.After(Patience):
		t.Fatal("the limiter never saw the end of the request")
	}
	left := func(l *core.Limiter) int64 {
		res, err := l.Peek(t.Context(), Key)
		if err != nil {
			t.Fatal(err)
		}
		return res.Remaining
	}
	for end := time.Now().Add(Patience); left(c.Slots) != 1 || left(c.Calls) != 5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 1 slot and %d of 5 tokens are there after the request", left(c.Slots), left(c.Calls))
		}
	}
	if len(c.seen) != 0 {
		t.Errorf("the refund was asked twice, and got %d too", <-c.seen)
	}
}
