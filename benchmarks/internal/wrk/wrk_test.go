package wrk

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const printed = `Running 1s test @ http://127.0.0.1:1234/items/42
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   224.91us   95.32us   2.35ms   78.84%
    Req/Sec    35.44k     1.15k   36.90k    81.82%
  38757 requests in 1.10s, 4.69MB read
Requests/sec:  35242.68
Transfer/sec:      4.27MB
`

func TestResultsAreRead(t *testing.T) {
	got, err := parse(printed + "requests=38757 us=1099717 p50=210 p99=530 connect=0 read=0 write=0 timeout=0 status=0\n")
	want := Measured{38757, 1099717 * time.Microsecond, 210 * time.Microsecond, 530 * time.Microsecond}
	if err != nil || got != want {
		t.Errorf("read %+v, %v, must be %+v", got, err, want)
	}
}

func TestARunThatProvesNothingIsAnError(t *testing.T) {
	for name, line := range map[string]string{
		"no line of results":   "",
		"denied":               "requests=9 us=9 p50=1 p99=2 connect=0 read=0 write=0 timeout=0 status=1",
		"connections broken":   "requests=9 us=9 p50=1 p99=2 connect=0 read=3 write=0 timeout=0 status=0",
		"errors not counted":   "requests=9 us=9 p50=1 p99=2",
		"nothing was asked":    "requests=0 us=9 p50=0 p99=0 connect=0 read=0 write=0 timeout=0 status=0",
		"no time was measured": "requests=9 us=0 p50=1 p99=2 connect=0 read=0 write=0 timeout=0 status=0",
	} {
		if got, err := parse(printed + line); err == nil {
			t.Errorf("%s: read %+v, must be an error", name, got)
		}
	}
}

// The script sends each client's name in the header field, in turn.
func TestEachClientAsks(t *testing.T) {
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("X-Api-Key")]++
	}))
	defer server.Close()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	m, err := w.Run(server.URL, Load{Connections: 4, Length: time.Millisecond, Field: "X-Api-Key", Clients: 50, First: 49})
	if err != nil {
		t.Fatal(err)
	}
	server.Close() // wrk does not wait for the last answers
	if m.Requests < 50 || len(seen) != 50 || seen[Client(49)] == 0 {
		t.Errorf("%d requests of %d clients, must be of 50: %v", m.Requests, len(seen), seen)
	}
}

func TestADeniedClientIsReported(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	if err := Check(server.Client(), server.URL, "X-Api-Key", Client(0), ""); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("error %v, must name the status 429", err)
	}
	w, err := New()
	if err != nil {
		t.Skip(err)
	}
	defer w.Close()
	load := Load{Connections: 1, Length: time.Millisecond, Field: "X-Api-Key", Clients: 1}
	if _, err := w.Run(server.URL, load); err == nil || !strings.Contains(err.Error(), "status") {
		t.Errorf("error %v, must tell of the status", err)
	}
}
