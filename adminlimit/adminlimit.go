// Package adminlimit is a page, and JSON, for the one on call: which policies
// are in force, who is denied most, how the stores do, and what is left to a
// key. If it is [Writable], it resets keys, turns shadow mode on and off, and
// reloads the policy file.
//
//	http.Handle("/admin/limits", adminlimit.New(authorise, adminlimit.Limiters(api, login)))
//
// All is of this process: each replica has its own. The page needs no scripts
// and asks nothing of other hosts. It lists the exceptions that operators have
// set and this process obeys, with their end, author and reason, and says how
// old they are: see FollowExceptions of redisstore. If [WithDenied] keeps
// hashes of keys, keys of exceptions are hashes too.
//
// A GET or HEAD returns the state: the page for an Accept with text/html, and
// otherwise JSON; ?format=html or ?format=json decides it. ?top=50 shows so
// many denied keys of a policy: from 1 to 1,000, by default 20; of all policies
// together at most 10,000. A POST of a form does what its field action says:
//
//	peek, reset             of policy and key, as the app makes it, as stores have a long one, or as denials show it; the log's form of a key that
//	                        was denied, is blocked or has limits of its own
//	shadow-on, shadow-off   of policy; hash, if given, must be the policy's in force
//	reload                  all policies from the file, or none
//
// A key that can't be shown as it is, such as one of invalid UTF-8, is shown as
// a Go string in double quotes, and a key in double quotes is taken so: what is
// shown can be pasted back.
//
// All but peek need [Writable]. Keys can be personal data, so they never are in
// a URL, which servers log. A POST of another site is refused, as
// [http.CrossOriginProtection] does. What a POST changed is in the answer and
// in the log: see [WithLogger].
//
// See [docs/tools.md].
//
// [docs/tools.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/tools.md
package adminlimit

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

// Authorise says who sent a request, by the app's own authentication, and
// whether they may use the handler. The handler shows and changes nothing for
// anybody else. who is logged with each change. If it is empty, nobody is
// known, and ok does not count.
//
// Where it goes by address, add [Hosts]: otherwise a page of another site can
// use the handler by DNS rebinding.
//
// The answer to others tells nothing: 403, or 401 for an empty who if there is
// a [WithChallenge].
type Authorise func(r *http.Request) (who string, ok bool)

// Handler serves the page. Make it with [New]. It is safe for concurrent use.
type Handler struct {
	config

	changing sync.Mutex // held while policies change
	crossing http.CrossOriginProtection
}

// New returns a handler that shows the state of [Limiters] to those that
// authorise lets in. It panics with a [core.ConfigError] of each mistake:
// authorise must not be nil, and there must be a limiter.
func New(authorise Authorise, options ...Option) *Handler {
	h := &Handler{config: config{settings: series.Settings{Package: "adminlimit"}, authorise: authorise, byName: make(map[string]*core.Limiter)}}
	if authorise == nil {
		h.settings.ArgumentError("New authorise", nil, "must be a function that says who sent a request: there is no default")
	}
	for _, o := range options {
		if o != nil {
			o(&h.config)
		}
	}
	slices.SortFunc(h.limiters, func(a, b *core.Limiter) int { return strings.Compare(a.Name(), b.Name()) })
	if len(h.limiters) == 0 {
		h.settings.ArgumentError("Limiters", "", "is required: it lists the limiters from core.NewLimiter")
	}
	if err := h.settings.Err(); err != nil {
		middleware.RefuseArguments(err)
	}
	return h
}

const version = 1

type failure struct {
	status int
	text   string
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if h.misdirected(r) {
		http.Error(w, http.StatusText(http.StatusMisdirectedRequest), http.StatusMisdirectedRequest)
		return
	}
	who, ok := h.authorise(r)
	switch {
	case who == "" && h.challenge != "":
		w.Header().Set("WWW-Authenticate", h.challenge)
		http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
		return
	case who == "" || !ok:
		http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	a := answer{Version: version, By: who, Writable: h.writable, top: defaultTop}
	status := http.StatusOK
	failed := a.read(r)
	if failed == nil {
		failed = h.do(w, r, &a)
	}
	if failed != nil {
		status, a.Error = failed.status, failed.text
	}
	h.state(&a)
	var body bytes.Buffer
	if a.html {
		h.now(r.Context(), &a)
		writePage(&body, &a)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	} else {
		writeJSON(&body, &a)
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone needs no answer
}

// secure sets what keeps the answer from caches, frames, scripts and other
// hosts.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send Origin: null with the forms
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
}

// read sets how a is shown, as r asks.
func (a *answer) read(r *http.Request) *failure {
	a.html = strings.Contains(r.Header.Get("Accept"), "text/html")
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &failure{http.StatusBadRequest, "the query of the URL can't be read"}
	}
	switch format := query.Get("format"); format {
	case "":
	case "html", "json":
		a.html = format == "html"
	default:
		return &failure{http.StatusBadRequest, "format must be html or json"}
	}
	if text := query.Get("top"); query.Has("top") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostTop {
			return &failure{http.StatusBadRequest, "top must be a number from 1 to " + strconv.Itoa(mostTop)}
		}
		a.top = n
	}
	for _, field := range []string{"action", "policy", "key"} {
		if query.Has(field) {
			return &failure{http.StatusBadRequest, field + " must be in the form of a POST: servers log URLs"}
		}
	}
	return nil
}
