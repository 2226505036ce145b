package adminlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// maxForm is the length of the longest form, in bytes. It has room for any key
// that a header field can have.
const maxForm = 16 << 10

type done struct {
	Action string `json:"action"`
	By     string `json:"by"`
	Policy string `json:"policy,omitempty"`
	Key    string `json:"key,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Answers to what can't be done.
var (
	crossSite  = &failure{http.StatusForbidden, "forms of other sites change nothing"}
	readOnly   = &failure{http.StatusForbidden, "this handler is read-only: it peeks, and changes nothing"}
	noFile     = &failure{http.StatusNotFound, "there is no policy file to reload"}
	outdated   = &failure{http.StatusConflict, "the policy has changed since you looked at it: look again"}
	noAnswer   = &failure{http.StatusServiceUnavailable, core.ErrUnavailable.Error()}
	noForm     = &failure{http.StatusUnsupportedMediaType, "a POST must be a form: Content-Type: application/x-www-form-urlencoded"}
	tooLong    = &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the form has more than %d bytes", maxForm)}
	badForm    = &failure{http.StatusBadRequest, "the form can't be read"}
	noAction   = &failure{http.StatusBadRequest, "action must be peek, reset, shadow-on, shadow-off or reload"}
	wrongVerbs = &failure{http.StatusMethodNotAllowed, "the method must be GET, HEAD or POST"}
)

// do does what r asks for, and notes it in a.
func (h *Handler) do(w http.ResponseWriter, r *http.Request, a *answer) *failure {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return nil
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return wrongVerbs
	}
	if h.crossing.Check(r) != nil {
		return crossSite
	}
	form, failed := formOf(w, r)
	if failed != nil {
		return failed
	}
	action := form["action"]
	switch action {
	case "peek":
	case "reset", "shadow-on", "shadow-off", "reload":
		if !h.writable {
			return readOnly
		}
	default:
		return noAction
	}
	d := done{Action: action, By: a.By}
	if action == "reload" {
		failed = h.reload(r.Context(), &d)
	} else {
		l := h.byName[form["policy"]]
		if l == nil {
			return &failure{http.StatusNotFound, "no limiter has the policy " + strconv.Quote(clip(form["policy"]))}
		}
		d.Policy = l.Name()
		key, err := oncall.GivenKey(form["key"])
		if err != nil {
			return &failure{http.StatusBadRequest, err.Error()}
		}
		switch action {
		case "peek":
			if a.Peek, _, _, err = h.peek(r.Context(), l, key); err != nil {
				return told(err)
			}
			return nil
		case "reset":
			failed = h.reset(r.Context(), l, key, &d, a)
		default:
			failed = h.shadow(r.Context(), l, form["hash"], &d)
		}
	}
	if failed == nil {
		a.Done = &d
	}
	return failed
}

func formOf(w http.ResponseWriter, r *http.Request) (map[string]string, *failure) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, noForm
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return nil, tooLong
		}
		return nil, badForm
	}
	form := make(map[string]string)
	for field, values := range r.PostForm {
		switch field {
		case "action", "policy", "key", "hash":
		default:
			return nil, &failure{http.StatusBadRequest, strconv.Quote(clip(field)) + " is no field: there are action, policy, key and hash"}
		}
		if len(values) > 1 {
			return nil, &failure{http.StatusBadRequest, field + " must be given once"}
		}
		form[field] = values[0]
	}
	return form, nil
}

// reset makes the bucket of a key full, and notes it in d.
func (h *Handler) reset(ctx context.Context, l *core.Limiter, key string, d *done, a *answer) *failure {
	before, res, reset, err := h.peek(ctx, l, key)
	if err == nil {
		key, d.Before = before.key, left(res)
		err = reset()
	}
	d.Key = oncall.ShownKey(key)
	if err != nil {
		failed := told(err)
		h.log(ctx, d, l.LogKey(key), failed.text) // what the error wraps may show the key
		return failed
	}
	d.Note = "other processes may repeat a denial for as long as their deny cache keeps it"
	if after, res, _, err := h.peek(ctx, l, key); err == nil {
		d.After, a.Peek = left(res), after
	}
	h.log(ctx, d, l.LogKey(key), "")
	return nil
}

// shadow turns shadow mode on or off, unless the policy is not that of seen,
// which may be empty.
func (h *Handler) shadow(ctx context.Context, l *core.Limiter, seen string, d *done) *failure {
	h.changing.Lock()
	defer h.changing.Unlock()
	before := l.Policy()
	if seen != "" && seen != hashOf(before) {
		return outdated
	}
	on := d.Action == "shadow-on"
	err := l.SetShadow(on)
	d.Before, d.After = onOff(before.Shadow), onOff(l.Policy().Shadow)
	if err != nil {
		h.log(ctx, d, "", err.Error())
		return &failure{http.StatusConflict, err.Error()}
	}
	h.log(ctx, d, "", "")
	d.Note = "in this process, until its next reload or start"
	return nil
}

// reload sets all policies from the file, or none.
func (h *Handler) reload(ctx context.Context, d *done) *failure {
	if h.path == "" {
		return noFile
	}
	h.changing.Lock()
	defer h.changing.Unlock()
	hashes := make([]string, len(h.limiters))
	for i, l := range h.limiters {
		hashes[i] = hashOf(l.Policy())
	}
	err := policyfile.Reload(h.path, h.limiters...)
	var before, after []string
	for i, l := range h.limiters {
		if now := hashOf(l.Policy()); now != hashes[i] {
			before, after = append(before, l.Name()+" "+hashes[i]), append(after, l.Name()+" "+now)
		}
	}
	d.Before, d.After = strings.Join(before, ", "), strings.Join(after, ", ")
	if err != nil { // it shows mistakes, and hides keys; where the file is concerns nobody
		h.log(ctx, d, "", err.Error())
		return &failure{http.StatusConflict, strings.ReplaceAll(err.Error(), h.path, filepath.Base(h.path))}
	}
	h.log(ctx, d, "", "")
	if d.Note = "in this process alone"; d.After == "" {
		d.Note = "the file has the policies that are in force: nothing has changed"
	}
	return nil
}

// log logs what d did, or tried and why it failed, if that is not empty. key is
// as the log shows it.
func (h *Handler) log(ctx context.Context, d *done, key, why string) {
	logger := cmp.Or(h.logger, slog.Default())
	attrs := []slog.Attr{slog.String("who", d.By), slog.String("action", d.Action)}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	if add("policy", d.Policy); h.showKeys && d.Key != "" {
		key = d.Key
	}
	add("key", key)
	add("before", d.Before)
	add("after", d.After)
	message := "ratelimit: changed by hand"
	if why != "" {
		message = "ratelimit: a change by hand failed"
		add("error", why)
	}
	logger.LogAttrs(ctx, slog.LevelInfo, message, attrs...)
}

// told returns what a client is told of an error of a limiter: of a key the
// library's own words, of a store that it does not answer.
func told(err error) *failure {
	if errors.Is(err, core.ErrNoKey) {
		return &failure{http.StatusBadRequest, err.Error()}
	}
	return noAnswer
}
