package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

type app struct {
	handler http.Handler
	now     time.Time
	worked  atomic.Int64 // requests that reached the expensive work
}

func newApp() *app {
	a := &app{now: time.Unix(1_800_000_000, 0)}
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return a.now }))
	a.handler = newRouter(store, func(string) { a.worked.Add(1) })
	return a
}

type answer struct {
	Bytes, Items, Cost, Left int64
}

func (a *app) post(t *testing.T, path string, body io.Reader) (*httptest.ResponseRecorder, answer) {
	t.Helper()
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, body))
	var got answer
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
	}
	return w, got
}

func array(n int) io.Reader {
	return strings.NewReader("[" + strings.TrimSuffix(strings.Repeat(`{"id":1},`, n), ",") + "]")
}

// unknown hides the length of a body, as chunked encoding does.
func unknown(r io.Reader) io.Reader { return struct{ io.Reader }{r} }

func TestBytesAreCharged(t *testing.T) {
	tests := []struct {
		name string
		size int
		cost int64
	}{
		{"an empty body is a request", 0, 1},
		{"a KiB that is begun counts", 1, 1},
		{"a full KiB", 1024, 1},
		{"one byte more", 1025, 2},
		{"the largest body", maxBody, 256},
	}
	for _, tt := range tests {
		for name, body := range map[string]io.Reader{
			"declared": bytes.NewReader(make([]byte, tt.size)),
			"chunked":  unknown(bytes.NewReader(make([]byte, tt.size))),
		} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				w, got := newApp().post(t, "/upload", body)
				want := answer{Bytes: int64(tt.size), Cost: tt.cost, Left: 512 - tt.cost}
				if w.Code != http.StatusOK || got != want {
					t.Errorf("status %d, %+v, want 200 and %+v: the handler must see the whole body", w.Code, got, want)
				}
			})
		}
	}
}

func TestDeniedBodiesAreNotReadAndNotWorkedOn(t *testing.T) {
	a := newApp()
	a.post(t, "/upload", bytes.NewReader(make([]byte, maxBody)))
	a.post(t, "/upload", bytes.NewReader(make([]byte, maxBody)))

	r := httptest.NewRequest(http.MethodPost, "/upload", iotest.ErrReader(io.ErrClosedPipe)) // fails whoever reads it
	r.ContentLength = 2048
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || a.worked.Load() != 2 {
		t.Fatalf("status %d after %d works, want 429 after 2", w.Code, a.worked.Load())
	}
	if got := w.Header().Get("Retry-After"); got != "1" { // 2 tokens at 512 a minute: 0.23 s, rounded up
		t.Errorf("Retry-After %q, want 1", got)
	}
	a.now = a.now.Add(time.Second)
	if w, _ := a.post(t, "/upload", bytes.NewReader(make([]byte, 2048))); w.Code != http.StatusOK {
		t.Errorf("after Retry-After: status %d, want 200", w.Code)
	}
}

func TestObjectsAreCharged(t *testing.T) {
	a := newApp()
	if w, got := a.post(t, "/items", array(3)); w.Code != http.StatusOK || got != (answer{Items: 3, Cost: 3, Left: 97}) {
		t.Errorf("3 objects: status %d, %+v", w.Code, got)
	}
	if w, _ := a.post(t, "/items", array(98)); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("98 objects with 97 tokens left: status %d, Retry-After %q, want 429 and 1", w.Code, w.Header().Get("Retry-After"))
	}
	if w, got := a.post(t, "/items", array(97)); w.Code != http.StatusOK || got.Left != 0 {
		t.Errorf("97 objects: status %d, %+v: the denied batch must have cost nothing", w.Code, got)
	}
	if a.worked.Load() != 2 {
		t.Errorf("%d requests were worked on, want 2", a.worked.Load())
	}
}

func TestBadBodiesCostNothing(t *testing.T) {
	tests := []struct {
		name, path string
		body       io.Reader
		want       int
	}{
		{"declared too large", "/upload", bytes.NewReader(make([]byte, maxBody+1)), 413},
		{"turns out too large", "/upload", unknown(bytes.NewReader(make([]byte, maxBody+1))), 413},
		{"breaks off", "/upload", unknown(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc")))), 400},
		{"too large", "/items", bytes.NewReader(make([]byte, maxBody+1)), 413},
		{"more objects than can ever pass", "/items", array(maxItems + 1), 413},
		{"empty", "/items", strings.NewReader(""), 400},
		{"no array", "/items", strings.NewReader(`{"id":1}`), 400},
		{"no objects", "/items", strings.NewReader(`[1,2]`), 400},
		{"cut off", "/items", strings.NewReader(`[{"id":1},`), 400},
		{"something after it", "/items", strings.NewReader(`[{"id":1}] [`), 400},
	}
	for _, tt := range tests {
		t.Run(tt.path[1:]+" "+tt.name, func(t *testing.T) {
			a := newApp()
			w, _ := a.post(t, tt.path, tt.body)
			if w.Code != tt.want || a.worked.Load() != 0 {
				t.Errorf("status %d, worked on %d, want %d and 0", w.Code, a.worked.Load(), tt.want)
			}
			full := map[string]int64{"/upload": 511, "/items": 99}[tt.path]
			if _, got := a.post(t, tt.path, array(1)); got.Left != full {
				t.Errorf("after the next request %d tokens are left, want %d", got.Left, full)
			}
		})
	}
}
