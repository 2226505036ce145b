package httplimit_test

import (
	"bytes"
	"context"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"weak"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func behind(t *testing.T, h http.HandlerFunc) http.Handler {
	t.Helper()
	return httplimit.New(limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(100)), httplimit.ByIP())(h)
}

// A job in the background may keep a request's context. It must not keep the
// request, whose size its client chooses.
func TestKeptContextDoesNotKeepTheRequest(t *testing.T) {
	var kept context.Context
	var request weak.Pointer[http.Request]
	behind(t, func(_ http.ResponseWriter, r *http.Request) {
		kept, request = context.WithoutCancel(r.Context()), weak.Make(r)
	}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	for range 3 {
		runtime.GC()
	}
	if request.Value() != nil {
		t.Error("the request is still in memory")
	}
	if _, ok := httplimit.FromContext(kept); !ok {
		t.Error("the context has lost the decision")
	}
}

// The server removes the files of a form when the request is over.
func TestUploadedFilesAreRemoved(t *testing.T) {
	var name string
	s := httptest.NewServer(behind(t, func(_ http.ResponseWriter, r *http.Request) {
		f, _, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if on, ok := f.(*os.File); ok {
			name = on.Name()
		}
	}))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "file")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write(make([]byte, 33<<20)) // more than FormFile keeps in memory
	_ = form.Close()
	res, err := http.Post(s.URL, form.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	s.Close() // waits until the request is over
	if name == "" {
		t.Fatal("premise: the upload is in a file")
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the file is left:", name)
		_ = os.Remove(name)
	}
}
