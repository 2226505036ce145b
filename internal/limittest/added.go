package limittest

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
)

// What an adapter's middleware may allocate for an allowed request with the
// default header fields and ByIP.
const (
	mostAllocations = 4
	mostBytes       = 500
)

// CheckAdded checks what middleware adds to an allowed request: at most 4
// allocations and 500 bytes. The functions serve the same request: limits
// through the middleware, nothing through one that does nothing, and keeps
// through one that only keeps a pointer with the request where FromContext
// finds it. Bytes are beyond those of keeps, which are the framework's own: gin
// and echo make a map, net/http copies the request.
func CheckAdded(t *testing.T, nothing, keeps, limits func()) {
	t.Helper()
	if Race {
		t.Skip("the race detector makes programs allocate more")
	}
	calls, _ := allocated(nothing)
	_, bytes := allocated(keeps)
	moreCalls, moreBytes := allocated(limits)
	if n := moreCalls - calls; n > mostAllocations+0.5 { // the runtime's own add some hundredths
		t.Errorf("a request takes %.2f allocations more with the limiter, want at most %d", n, mostAllocations)
	}
	if n := moreBytes - bytes; n > mostBytes {
		t.Errorf("a request takes %.0f bytes more with the limiter than to keep a value with it, want at most %d", n, mostBytes)
	}
}

// allocated returns what one call of f allocates.
func allocated(f func()) (allocations, bytes float64) {
	const calls = 2000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing else runs meanwhile
	for range 100 {                                 // the key is known, and pools are full
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls, float64(after.TotalAlloc-before.TotalAlloc) / calls
}

// Request returns a function that has h serve the same request again and again.
// h must answer 204.
func Request(t *testing.T, h http.Handler) func() {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	return func() {
		clear(w.Header())
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNoContent {
			t.Fatalf("the premise: every request is allowed, and one was answered %d", w.Code)
		}
	}
}
