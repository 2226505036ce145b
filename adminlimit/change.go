package adminlimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// maxForm is the length of the longest form, in bytes. It has room for any key
// that a header field can have.
const maxForm = 16 << 10

// failure is an error whose text a client may see.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

var (
	badForm     = &failure{http.StatusBadRequest, "the form can't be read, or is longer than 16 KiB"}
	badKey      = &failure{http.StatusBadRequest, `a key in double quotes must be a Go string, such as "user:\xff"`}
	noKey       = &failure{http.StatusBadRequest, "key is missing, such as ip:192.0.2.1"}
	badFor      = &failure{http.StatusBadRequest, "for must be such as 30m or 24h, or empty: until the exception is removed"}
	notFollowed = &failure{http.StatusConflict, "this process does not follow exceptions in Redis: see FollowExceptions of redisstore"}
)

// public returns what a client may see of an error: mistakes, and of a store
// only that it does not answer.
func public(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if _, ok := errors.AsType[*core.ConfigError](err); ok {
		return &failure{http.StatusBadRequest, err.Error()}
	}
	if errors.Is(err, redisstore.ErrExceptions) {
		return &failure{http.StatusConflict, err.Error()}
	}
	return &failure{http.StatusServiceUnavailable, core.ErrUnavailable.Error()}
}

// order is what a POST asks for.
type order struct {
	who, action string
	limiter     *core.Limiter // nil for reload
	key         string        // "" for actions without one
	form        url.Values
}

// post does what r asks for, and notes it in s and the log.
func (h *handler) post(w http.ResponseWriter, r *http.Request, who string, s *State) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return badForm
	}
	o := order{who: who, action: r.PostForm.Get("action"), form: r.PostForm}
	if !slices.Contains(h.actions, o.action) {
		return &failure{http.StatusForbidden, "action must be one that this page can do: " + strings.Join(h.actions, ", ")}
	}
	if o.action != "reload" {
		name := o.form.Get("policy")
		if o.limiter = h.byName[name]; o.limiter == nil {
			return &failure{http.StatusNotFound, "no limiter here has the policy " + strconv.Quote(name[:min(len(name), 80)])}
		}
	}
	if o.limiter != nil && !strings.HasPrefix(o.action, "shadow") {
		var err error
		if o.key, err = given(o.form.Get("key")); err != nil {
			return err
		}
		if o.key == "" {
			return noKey
		}
	}
	ctx := r.Context()
	if o.action != "look" {
		done, err := h.change(ctx, &o)
		h.log(ctx, &o, done, err)
		if err != nil {
			return err
		}
		s.Done = done
		if o.key == "" {
			return nil
		}
	}
	b, err := h.look(ctx, o.limiter, o.form.Get("plan"), o.key)
	s.Bucket = b
	return err
}

// change does what o asks for. It returns what that was, without the key.
func (h *handler) change(ctx context.Context, o *order) (done string, err error) {
	switch o.action {
	case "reset":
		return h.reset(ctx, o)
	case "block", "override":
		return h.except(ctx, o)
	case "remove":
		return h.remove(ctx, o)
	case "reload":
		return h.reload()
	}
	return h.shadow(o.limiter, o.action == "shadow-on")
}

func (h *handler) reset(ctx context.Context, o *order) (done string, err error) {
	before, err := h.look(ctx, o.limiter, o.form.Get("plan"), o.key)
	if err != nil {
		return "", err
	}
	var had []string
	for _, l := range before.Limits {
		had = append(had, l.Name+" had "+l.Says)
	}
	return "reset: " + cmp.Or(strings.Join(had, "; "), "what was left is not known"), o.limiter.Reset(ctx, o.key)
}

// except blocks a key, or gives it other limits.
func (h *handler) except(ctx context.Context, o *order) (done string, err error) {
	policy := o.limiter.Name()
	e := redisstore.Exception{Key: o.key, By: o.who, Reason: strings.TrimSpace(o.form.Get("reason"))}
	done = "blocked"
	if o.action == "override" {
		for limit := range strings.SplitSeq(o.form.Get("limits"), ",") {
			l, err := core.ParseLimit(limit)
			if err != nil {
				return "", err
			}
			e.Limits = append(e.Limits, l)
		}
		fits := o.limiter.Policy()
		fits.Overrides = map[string][]core.Limit{o.key: e.Limits}
		if err := fits.Validate(); err != nil {
			return "", err
		}
		done = "other limits: " + strings.Join(texts(e.Limits), ", ")
	}
	if lasts := o.form.Get("for"); lasts != "" {
		if e.For, err = time.ParseDuration(lasts); err != nil || e.For <= 0 {
			return "", badFor
		}
		done += ", for " + wait(e.For)
	} else {
		done += ", until it is removed"
	}
	for _, old := range exceptionsOf(o.limiter) {
		if old.Key == text(store.Key(o.key)) {
			done += ", in place of " + cmp.Or(strings.Join(old.Limits, ", "), "a block")
		}
	}
	if err := h.followed(policy); err != nil {
		return "", err
	}
	if err := h.Redis.SetException(ctx, policy, e); err != nil {
		return "", err
	}
	h.obey(ctx, o.limiter)
	return done, nil
}

// remove ends the block or the override of a key.
func (h *handler) remove(ctx context.Context, o *order) (done string, err error) {
	if err := h.followed(o.limiter.Name()); err != nil {
		return "", err
	}
	was, err := h.Redis.RemoveException(ctx, o.limiter.Name(), o.key, o.who, strings.TrimSpace(o.form.Get("reason")))
	if err != nil {
		return "", err
	}
	h.obey(ctx, o.limiter)
	if !was {
		return "there was no exception to remove", nil
	}
	return "removed what operators had set", nil
}

// followed returns an error unless this process follows the exceptions of a
// policy: otherwise an exception would not hold here.
func (h *handler) followed(policy string) error {
	for _, e := range h.Redis.Stats().Exceptions {
		if e.Policy == policy {
			return nil
		}
	}
	return notFollowed
}

// obey has this process obey a change of exceptions at once. If Redis does not
// answer, it does so when it follows them again.
func (h *handler) obey(ctx context.Context, l *core.Limiter) { _ = h.Redis.ReadExceptions(ctx, l) }

// shadow turns shadow mode on or off.
func (h *handler) shadow(l *core.Limiter, on bool) (done string, err error) {
	h.changing.Lock()
	defer h.changing.Unlock()
	p := l.Policy()
	p.Shadow = on
	done = "shadow mode is off"
	if on {
		done = "shadow mode is on"
	}
	return done + ", in this process, until its next reload or start", l.SetPolicy(p)
}

// reload sets all policies from the file, or none.
func (h *handler) reload() (done string, err error) {
	h.changing.Lock()
	defer h.changing.Unlock()
	before := make(map[string]string)
	for name, l := range h.byName {
		before[name] = hashOf(l.Policy())
	}
	if err := policyfile.Reload(h.PolicyFile, h.Limiters...); err != nil { // it shows mistakes, and hides keys
		return "", &failure{http.StatusConflict, strings.ReplaceAll(err.Error(), h.PolicyFile, filepath.Base(h.PolicyFile))}
	}
	maps.DeleteFunc(before, func(name, hash string) bool { return hash == hashOf(h.byName[name].Policy()) })
	if len(before) == 0 {
		return "reloaded: the file has the policies that are in force", nil
	}
	return "reloaded: changed " + strings.Join(slices.Sorted(maps.Keys(before)), ", ") + " in this process", nil
}

// log logs what o did, or why it failed.
func (h *handler) log(ctx context.Context, o *order, done string, err error) {
	attrs := []slog.Attr{slog.String("who", o.who), slog.String("action", o.action)}
	if o.limiter != nil {
		attrs = append(attrs, slog.String("policy", o.limiter.Name()))
	}
	if h.LogKeys && o.key != "" {
		attrs = append(attrs, slog.String("key", o.key))
	}
	message := "ratelimit: changed by hand"
	if err != nil { // the error itself may show a key or a password
		message = "ratelimit: a change by hand failed"
		attrs = append(attrs, slog.String("error", public(err).text))
	} else {
		attrs = append(attrs, slog.String("done", done))
	}
	cmp.Or(h.Logger, slog.Default()).LogAttrs(ctx, slog.LevelInfo, message, attrs...)
}
