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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	assert.Nil(t, request.Value(), "the request is still in memory")
	_, ok := httplimit.FromContext(kept)
	assert.True(t, ok, "the context has lost the decision")
}

// The server removes the files of a form when the request is over.
func TestUploadedFilesAreRemoved(t *testing.T) {
	var name string
	s := httptest.NewServer(behind(t, func(_ http.ResponseWriter, r *http.Request) {
		f, _, err := r.FormFile("file")
		assert.NoError(t, err)
		if on, ok := f.(*os.File); ok {
			name = on.Name()
			_ = on.Close()
		}
	}))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "file")
	require.NoError(t, err)
	_, _ = file.Write(make([]byte, 33<<20)) // more than FormFile keeps in memory
	_ = form.Close()
	res, err := http.Post(s.URL, form.FormDataContentType(), &body)
	require.NoError(t, err)
	_ = res.Body.Close()
	s.Close() // waits until the request is over
	require.NotEmpty(t, name, "the premise: the upload is in a file")
	defer os.Remove(name)
	assert.NoFileExists(t, name)
}
