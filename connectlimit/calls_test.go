package connectlimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// As curl sends it: a plain POST of JSON.
func TestAPlainPostOfJSON(t *testing.T) {
	s := serve(t, handlers{}, connectlimit.New(perHour("calls", 1), byKey))
	post := func(key string) (*http.Response, string) {
		r, err := http.NewRequest(http.MethodPost, s.URL+once, bytes.NewBufferString(`"hello"`))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Api-Key", key)
		res, err := s.Client().Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res, string(body)
	}
	res, body := post("a")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, `"hello"`, body)
	assert.Equal(t, `"calls";q=1;w=3600`, res.Header.Get("RateLimit-Policy"))
	res, body = post("a")
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	assert.Contains(t, []string{"3600", "3599"}, res.Header.Get("Retry-After"))
	assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	var refusal struct {
		Code    string
		Details []struct{ Type string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &refusal))
	assert.Equal(t, "resource_exhausted", refusal.Code)
	require.Len(t, refusal.Details, 2)
	assert.Equal(t, "google.rpc.RetryInfo", refusal.Details[0].Type)
	assert.Equal(t, "google.rpc.QuotaFailure", refusal.Details[1].Type)
	res, _ = post("")
	assert.Equal(t, http.StatusBadRequest, res.StatusCode, "no key")
}

// A client that has the interceptor, as one option for both sides gives it, is
// not limited by it.
func TestCallsOfClientsPassUntouched(t *testing.T) {
	limits := connectlimit.New(perHour("calls", 1), func(*connectlimit.Call) (string, error) {
		t.Error("a client's call has been decided")
		return "", nil
	})
	s := serve(t, handlers{})
	client := func(procedure string) *connect.Client[text, text] {
		return connect.NewClient[text, text](s.Client(), s.URL+procedure, connect.WithInterceptors(limits))
	}
	for range 2 {
		res, err := client(once).CallUnary(within(t), connect.NewRequest(hello()))
		require.NoError(t, err)
		assert.Empty(t, res.Header()["X-Ratelimit-Limit"])
		cs := client(talk).CallBidiStream(within(t))
		require.NoError(t, say(cs))
		require.NoError(t, closed(cs))
	}
}

// inProcess is a transport whose requests keep their contexts.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestACallWithinACallIsACallOfItsOwn(t *testing.T) {
	limiter := perHour("calls", 9)
	limits := connectlimit.New(limiter, all)
	inner := handlers{}.mux(connect.WithInterceptors(limits))
	h := handlers{once: func(ctx context.Context, in *request) (*response, error) {
		res, err := connect.NewClient[text, text](&http.Client{Transport: inProcess{inner}}, "http://inner"+once).CallUnary(ctx, connect.NewRequest(in.Msg))
		if assert.NoError(t, err) {
			assert.Len(t, res.Header()["Ratelimit"], 1, "the inner call's answer has its own fields")
		}
		mine, _ := connectlimit.FromContext(ctx)
		assert.EqualValues(t, 8, mine.Remaining, "the outer call keeps its decision")
		return connect.NewResponse(in.Msg), err
	}}
	a, res := serve(t, h, limits).send(t, "")
	require.NoError(t, a.err)
	assert.EqualValues(t, 7, limittest.Left(t, limiter, "all"), "both calls pay")
	assert.Len(t, res.Header()["Ratelimit"], 1, "the outer call's answer has its own fields alone")
}

// An interceptor for all handlers and one of them may be the same.
func TestAnInterceptorThatStandsTwiceDecidesOnce(t *testing.T) {
	limiter := perHour("calls", 9)
	limits := connectlimit.New(limiter, all)
	s := serve(t, handlers{}, limits, limits)
	require.NoError(t, s.call(t, "").err)
	require.NoError(t, say(s.open(t, "")))
	assert.EqualValues(t, 7, limittest.Left(t, limiter, "all"))
}

type user struct{}

// TestConformance shows the keys that all adapters have, with peers that it
// makes up.
func TestKeysOfCalls(t *testing.T) {
	login := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			return next(context.WithValue(ctx, user{}, 7), req)
		}
	})
	for name, test := range map[string]struct {
		key  connectlimit.KeyFunc
		want string
	}{
		"ByPeer":    {connectlimit.ByPeer(), "ip:127.0.0.1"},
		"ByMethod":  {connectlimit.ByMethod(), "method:" + once},
		"ByService": {connectlimit.ByService(), "service:" + service},
		"own, of context and call": {func(c *connectlimit.Call) (string, error) {
			v, _ := c.Context().Value(user{}).(int)
			return c.Peer().Protocol[:4] + c.Procedure[:5] + string(rune('0'+v)), nil
		}, "conn/test7"},
		"own, of the message": {func(c *connectlimit.Call) (string, error) {
			assert.Equal(t, connect.StreamTypeUnary, c.StreamType)
			return c.Message.(*text).GetValue(), nil
		}, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := perHour("calls", 1)
			require.NoError(t, serve(t, handlers{}, login, connectlimit.New(limiter, test.key)).call(t, "").err)
			assert.EqualValues(t, 0, limittest.Left(t, limiter, test.want), "keys are those of grpclimit and of the adapters for HTTP")
		})
	}
}

// The keys are those of grpclimit, which gets the fields decoded.
func TestBinaryFieldsAreOneKeyHoweverTheyAreEncoded(t *testing.T) {
	got := make(chan string, 1)
	read := connectlimit.ByHeader("x-key-bin")
	speak(t, serve(t, handlers{}, connectlimit.New(perHour("calls", 999), func(c *connectlimit.Call) (string, error) {
		key, err := read(c)
		got <- key
		return key, err
	})), func(t *testing.T, s server) {
		send := func(values ...string) (string, error) {
			req := connect.NewRequest(hello())
			req.Header()["X-Key-Bin"] = values
			_, err := s.client(once, nil).CallUnary(within(t), req)
			return <-got, err
		}
		want := "x-key-bin:\xfb"
		for last := range 16 {
			text := "+" + "wxyz0123456789+/"[last:last+1]
			for _, values := range [][]string{{text}, {text + "=="}, {text, "+w=="}, {text + ", +w,+z=="}} {
				key, err := send(values...)
				require.NoError(t, err)
				assert.Equal(t, want, key, "%q", values)
			}
		}
		for _, values := range [][]string{{"-w"}, {"+"}, {"+w="}, {"+w", "+g"}, {"+w,+g"}, {"+w,"}, {""}} {
			_, err := send(values...)
			assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%q is no key", values)
		}
	})
}
