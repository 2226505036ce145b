package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// app starts a process of a service, whose adminlimit asks for ann's password
// and counts denials of the policy api by key. It returns the URL of the page.
func app(t *testing.T, denials map[string]int) string {
	t.Helper()
	top := new(adminlimit.Top)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{daily}}, core.WithObserver(top.Observe)))
	for key, n := range denials {
		_, err := l.AllowN(t.Context(), key, 10)
		require.NoError(t, err)
		for range n {
			res, err := l.Allow(t.Context(), key)
			require.NoError(t, err)
			require.False(t, res.Allowed, "the premise: the tokens of %s are used up", key)
		}
	}
	authorise := func(r *http.Request) (string, bool) {
		who, given, _ := r.BasicAuth()
		if r.Header.Get("X-Token") == password {
			return "program", true
		}
		return who, given == password
	}
	mux := http.NewServeMux()
	mux.Handle("/admin/limits", core.Must(adminlimit.New(authorise, adminlimit.Config{Limiters: []*core.Limiter{l}, Denied: top})))
	mux.Handle("/old", http.RedirectHandler("/login?token="+password, http.StatusFound))
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<p>log in</p>")) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/admin/limits"
}

func TestTopAddsUpReplicas(t *testing.T) {
	write(t, nil)
	t.Setenv(userVariable, "ann:"+password)
	one, two := app(t, map[string]int{"value:user:bob": 3, "evil\x1b[2J": 1}), app(t, map[string]int{"value:user:bob": 4, "ip:192.0.2.7": 2})
	out, errs, code := command(t, "top "+one+" "+two)
	require.Equal(t, exitDone, code, errs)
	assert.Regexp(t, `^api: 10 denied by 2 replicas in \d+`, out)
	assert.Contains(t, out, "\n  value:user:bob  7  70.0 %\n  ip:192.0.2.7    2  20.0 %\n  \"evil\\x1b[2J\"   1  10.0 %\n")
	out, _, _ = command(t, "top "+one+" "+two+" --most 1 --json")
	var r topResult
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, []topKey{{"value:user:bob", 7}}, r.Policies[0].Keys)
	t.Setenv(userVariable, "")
	t.Setenv(headerVariable, "X-Token: "+password)
	expect(t, []expected{
		says("top "+app(t, nil), "Nobody is denied by 1 replica."), says("top "+one+" --policy other", "Nobody is denied"),
		says("top "+strings.Replace(one, "http://", "http://ann:"+password+"@", 1), "4 denied"),
	})
}

// Replicas that can't be read are named, with what to do, and the others count.
func TestTopNamesReplicasThatCantBeRead(t *testing.T) {
	write(t, nil)
	t.Setenv(userVariable, "ann:"+password)
	page := app(t, map[string]int{"bob": 1})
	host := strings.TrimSuffix(page, "/admin/limits")
	expect(t, []expected{
		unavailable("top "+page+" "+host+"/lost", "api: 1 denied by 1 replica", "not read: "+host+"/lost: 404 Not Found: give the URL of the adminlimit handler itself", "1 of 2 replicas can't be read"),
		unavailable("top "+host+"/old", "302 Found"), unavailable("top "+host+"/html", "the answer is not that of adminlimit"),
		unavailable("top http://127.0.0.1:1/x", "connection refused"), unavailable("top "+strings.Replace(page, "http://", "https://", 1), "HTTP response to HTTPS client"),
		misuses("top "+page+" "+page, "is given twice"), misuses("top ann:"+password+"@host", "each URL must be such as"), misuses("top"), misuses("top "+page+" --most 0", "--most"),
	})
	t.Setenv(userVariable, "ann:wrong")
	expect(t, []expected{unavailable("top "+page, "say who asks by ADMINLIMIT_USER or ADMINLIMIT_HEADER")})
	t.Setenv(userVariable, password)
	expect(t, []expected{misuses("top "+page, "must be NAME:PASSWORD")})
	t.Setenv(userVariable, "")
	t.Setenv(headerVariable, password)
	expect(t, []expected{misuses("top "+page, "must be such as 'Authorization: Bearer")})
	t.Setenv(headerVariable, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, exitInterrupted, run(ctx, []string{"top", page}, strings.NewReader(""), t.Output(), t.Output()))
}
