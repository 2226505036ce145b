// Package adminlimit is a page, and JSON, for the one on call: who is denied
// most, what is left to a key, and what is in force. If it is Writable, it also
// resets and blocks keys, gives them other limits, and reloads policies.
//
//	var top adminlimit.Top
//	limiter, err := core.NewLimiter(store, policy, core.WithObserver(top.Observe))
//	page, err := adminlimit.New(authorise, adminlimit.Config{Limiters: []*core.Limiter{limiter}, Denied: &top})
//	http.Handle("/admin/limits", page)
//
// The page is of the process that serves it: each replica has its own. It has
// no scripts and asks nothing of other hosts.
//
// A GET answers with a [State]: as HTML if Accept has text/html, and otherwise,
// or with ?format=json, as JSON. A POST of a form does what its field action
// says, and answers alike:
//
//	look                    shows the bucket of policy and key, by the limits of plan if that is given
//	reset                   makes that bucket full
//	block                   denies all requests of policy and key: see below
//	override                gives policy and key other limits: see below
//	remove                  ends block and override of policy and key
//	shadow-on, shadow-off   of policy, in this process, until its next reload or start
//	reload                  sets all policies from the file, or none
//
// All but look need Writable. block, override and remove write exceptions into
// Redis, which all processes obey that call FollowExceptions of redisstore.
// They hold as long as the field for says, such as 1h, and without it until
// they are removed. reason says why. limits of an override are as in policy
// files, with commas between them.
//
// Keys can be personal data, so they never are in a URL, which servers log. A
// key that can't be shown as it is, such as one with characters that nobody can
// see, is shown as a Go string in double quotes, and can be given so.
//
// See [docs/tools.md].
//
// [docs/tools.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/tools.md
package adminlimit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// Config says what a page shows and may change. Only Limiters are required.
type Config struct {
	// Limiters are shown and changed: one of each policy name.
	Limiters []*core.Limiter

	// Denied counts who is denied. The limiters must have
	// core.WithObserver(top.Observe). Nil: the page does not show it.
	Denied *Top

	// Redis is the store of the limiters. The page shows whether it answers,
	// and writes exceptions there. Nil: the limiters have another store.
	Redis *redisstore.Store

	// Writable lets those change something who may look.
	Writable bool

	// PolicyFile is the path of the file that reload reads: it must have the
	// policies of all Limiters. Empty: there is none.
	PolicyFile string

	// Challenge is a WWW-Authenticate field, such as `Basic realm="limits"`,
	// by which browsers ask for a password. A request of nobody known is
	// answered with it and 401. Empty: with 403.
	Challenge string

	// Hosts are the names by which browsers reach the page, without a port:
	// "admin.example.com", "localhost" or "[::1]". A request for another host
	// is answered with 421. Empty: all hosts are served.
	//
	// Set it where authorise goes by address, such as "all of 127.0.0.1". A
	// page of another site can rebind its own name to that address (DNS
	// rebinding). For the browser this page is then a part of that site. But
	// the browser still sends the site's name as Host.
	Hosts []string

	// Logger logs who changed what, at level info. Nil: slog.Default does.
	Logger *slog.Logger

	// LogKeys logs the keys too. They can be personal data.
	LogKeys bool
}

type handler struct {
	Config

	authorise func(*http.Request) (who string, ok bool)
	actions   []string                 // that a POST may ask for
	byName    map[string]*core.Limiter // by policy
	changing  sync.Mutex               // held while policies change
}

// New returns the handler of a page. The error joins a [core.ConfigError] for
// each mistake.
//
// authorise says who sent a request, by the app's own authentication, and
// whether they may use the page. Others get 403. who is
// logged with each change. If it is empty, nobody is known, and ok does not
// count.
func New(authorise func(r *http.Request) (who string, ok bool), c Config) (http.Handler, error) {
	var errs []error
	mistake := func(field string, value any, reason string) {
		errs = append(errs, &core.ConfigError{Field: field, Value: value, Reason: reason})
	}
	if authorise == nil {
		mistake("adminlimit.New authorise", nil, "must be a function that says who sent a request: there is no default")
	}
	if len(c.Limiters) == 0 {
		mistake("adminlimit.Config.Limiters", c.Limiters, "must have the limiters from core.NewLimiter")
	}
	h := &handler{Config: c, authorise: authorise, byName: make(map[string]*core.Limiter)}
	h.Limiters = nil
	for i, l := range c.Limiters {
		field := fmt.Sprintf("adminlimit.Config.Limiters[%d]", i)
		switch {
		case l == nil:
			mistake(field, nil, "must be a limiter from core.NewLimiter")
		case h.byName[l.Name()] != nil:
			mistake(field, l.Name(), "is the policy of an earlier limiter too: give one limiter of each policy")
		default:
			h.byName[l.Name()] = l
			h.Limiters = append(h.Limiters, l)
		}
	}
	slices.SortFunc(h.Limiters, func(a, b *core.Limiter) int { return strings.Compare(a.Name(), b.Name()) })
	h.Hosts = nil
	for _, name := range c.Hosts {
		host := hostname(name)
		if host == "" || name != host && name != "["+host+"]" || strings.ContainsAny(host, "/@*, ") {
			mistake("adminlimit.Config.Hosts", name, "must be a name or an address as in a URL, without a port, such as admin.example.com or [::1]")
		}
		h.Hosts = append(h.Hosts, host)
	}
	h.actions = []string{"look"}
	if c.Writable {
		h.actions = append(h.actions, "reset", "shadow-on", "shadow-off")
		if c.Redis != nil {
			h.actions = append(h.actions, "block", "override", "remove")
		}
		if c.PolicyFile != "" {
			h.actions = append(h.actions, "reload")
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return http.NewCrossOriginProtection().Handler(h), nil
}

// hostname returns a Host field without its port and brackets.
func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }

// ServeHTTP answers a request that is not cross-site, or changes nothing.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send Origin: null with the forms
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	refuse := func(status int) { http.Error(w, http.StatusText(status), status) }
	sameHost := func(name string) bool { return strings.EqualFold(name, hostname(r.Host)) }
	if len(h.Hosts) > 0 && !slices.ContainsFunc(h.Hosts, sameHost) {
		refuse(http.StatusMisdirectedRequest)
		return
	}
	who, ok := h.authorise(r)
	switch {
	case who == "" && h.Challenge != "":
		header.Set("WWW-Authenticate", h.Challenge)
		refuse(http.StatusUnauthorized)
		return
	case who == "" || !ok:
		refuse(http.StatusForbidden)
		return
	}
	s := State{Version: 1, By: text(who), Actions: h.actions}
	status := http.StatusOK
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if err := h.post(w, r, who, &s); err != nil {
			f := public(err)
			status, s.Error = f.status, f.text
		}
	default:
		header.Set("Allow", "GET, HEAD, POST")
		refuse(http.StatusMethodNotAllowed)
		return
	}
	h.inForce(&s)
	write, kind := writeJSON, "application/json"
	format := cmp.Or(r.URL.Query().Get("format"), "html")
	if format == "html" && strings.Contains(r.Header.Get("Accept"), "text/html") {
		write, kind = writePage, "text/html; charset=utf-8"
	}
	var body bytes.Buffer
	if err := write(&body, &s); err != nil {
		panic(err) // the template does not fit State
	}
	header.Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone needs no answer
}
