package adminlimit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// How many denied keys of a policy are shown, by default and at most, and how
// many of all policies.
const (
	defaultTop = 20
	mostTop    = 1000
	mostOfAll  = 10_000
)

type answer struct {
	Version  int            `json:"version"` // of this JSON: 1, until a member goes away or means something else
	By       string         `json:"by"`      // who asked
	Writable bool           `json:"writable"`
	Error    string         `json:"error,omitempty"` // why the request failed
	Done     *done          `json:"done,omitempty"`  // what it changed
	Peek     *bucket        `json:"peek,omitempty"`
	Policies []policy       `json:"policies"`
	Denied   *denied.Report `json:"denied,omitempty"` // without WithDenied there is none
	Stores   []storeState   `json:"stores"`
	Now      []denials      `json:"-"` // of the page: who is denied, with buckets

	CanReload bool `json:"-"` // there is a file to reload, for the page
	html      bool
	top       int
}

type policy struct {
	Name      string    `json:"name"`
	Hash      string    `json:"hash"`
	Since     time.Time `json:"since"`
	Limits    []string  `json:"limits"`
	Plans     []plan    `json:"plans,omitempty"`
	Overrides int       `json:"overrides"` // how many keys have limits of their own, by the policy or by operators
	Blocked   int       `json:"blocked"`   // how many keys are blocked, alike
	OnFailure string    `json:"on_failure"`
	Shadow    bool      `json:"shadow"`

	Exceptions *oncall.Exceptions `json:"exceptions"` // what operators have set and this process obeys
}

type plan struct {
	Name   string   `json:"name"`
	Limits []string `json:"limits"`
}

type storeState struct {
	Name       string  `json:"name"`
	Breaker    string  `json:"breaker"`
	Opened     int64   `json:"opened"`
	Away       float64 `json:"away_seconds"`
	Calls      int64   `json:"calls"`
	Decisions  int64   `json:"decisions"`
	DenyCache  int64   `json:"deny_cache"`
	Leased     int64   `json:"leased"`
	Unreadable int64   `json:"unreadable"`
}

// state notes in a what is in force, who is denied most, and what stores did.
func (h *Handler) state(a *answer) {
	a.Policies, a.Stores = make([]policy, len(h.limiters)), make([]storeState, len(h.settings.Stores))
	a.CanReload = h.writable && h.path != ""
	for i, l := range h.limiters {
		p, since := l.Policy(), l.Since()
		overrides, blocked := oncall.RulesOf(l).Count()
		a.Policies[i] = policy{
			Name: p.Name, Hash: hashOf(p), Since: since.UTC().Truncate(time.Second), Limits: oncall.Texts(p.Limits), Overrides: overrides, Blocked: blocked,
			OnFailure: p.OnFailure.String(), Shadow: p.Shadow, Exceptions: oncall.ExceptionsOf(l, time.Now(), h.form),
		}
		a.Policies[i].Exceptions.Hashed = h.hashed()
		for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
			a.Policies[i].Plans = append(a.Policies[i].Plans, plan{name, oncall.Texts(p.Plans[name])})
		}
	}
	for i, s := range h.settings.Stores {
		stats := s.Stats()
		a.Stores[i] = storeState{
			Name: s.Name, Breaker: stats.Breaker.String(), Opened: stats.Opened, Away: stats.Away.Seconds(), Calls: stats.Calls,
			Decisions: stats.Decisions, DenyCache: stats.Denied, Leased: stats.Leased, Unreadable: stats.Unreadable,
		}
	}
	if h.denied == nil {
		return
	}
	report, room := h.denied.Report(), mostOfAll
	for i, p := range report.Policies {
		if a.Peek != nil && a.Peek.Policy == p.Policy {
			a.Peek.AtLeast = a.Peek.countOf(h.denied, p)
		}
		report.Policies[i] = p.Top(min(a.top, room))
		for j := range report.Policies[i].Keys {
			report.Policies[i].Keys[j].Key = oncall.ShownKey(report.Policies[i].Keys[j].Key)
		}
		room -= len(report.Policies[i].Keys)
	}
	a.Denied = &report
}

// hashed reports whether keys are shown as hashes: then those of exceptions are
// too.
func (h *Handler) hashed() bool { return h.denied != nil && h.denied.Hashed() }

func (h *Handler) form(key string) string {
	if h.hashed() {
		return h.denied.Form(key)
	}
	return oncall.ShownKey(key)
}

// hashOf returns the first 12 hex digits of the SHA-256 of p as JSON, plans and
// overrides included.
func hashOf(p core.Policy) string {
	text, err := json.Marshal(p)
	if err != nil { // a time zone without a name, which no file can have
		text = fmt.Append(nil, p) // limits are written as text
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

func left(res core.Result) string {
	var words []string
	for _, l := range res.Limits() {
		words = append(words, fmt.Sprintf("%s: %d of %d tokens left", l.Limit.Name, l.Remaining, l.Limit.Capacity))
	}
	if words == nil {
		return "not known"
	}
	return strings.Join(words, ", ")
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func clip(s string) string { return s[:min(len(s), 80)] }
