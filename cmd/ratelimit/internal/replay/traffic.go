// Package replay runs the requests of access logs through policies, on a clock
// of its own and without Redis, and reports what they would deny.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Options say which lines of a log are requests, and of whom.
type Options struct {
	Key   string   // ip, path, method, header:NAME, header:NAME=FIELD, or a field of the log; or several, joined by +
	Trust []string // the proxies that the service trusts, as core.TrustProxies takes them
	Only  []string // FIELD=PATTERN, in which * is any text: other lines are left out
	Skip  []string // FIELD=PATTERN: such lines are left out
}

// Traffic is the requests of logs. Each takes 16 bytes of memory.
type Traffic struct {
	addresses  *addresses
	key        keyFunc
	only, skip []filter

	logs      []string
	requests  []request // of all clients; in the order of their times when they are replayed
	clients   []string  // by number, their keys
	numbers   map[string]int32
	wholeSecs bool // every time is a whole second
	tooMany   int64

	unwanted, unread, unknown LeftOut
}

// request is one request of a client.
type request struct {
	at     int64 // in µs since 1970
	client int32
}

// NewTraffic returns a Traffic without requests, or an error for a mistake in
// the options.
func NewTraffic(o Options) (*Traffic, error) {
	t := &Traffic{
		numbers: make(map[string]int32), wholeSecs: true,
		unwanted: LeftOut{Why: "as --only and --skip say"},
		unread:   LeftOut{Why: "that can't be read"},
		unknown:  LeftOut{Why: "whose client is not known"},
	}
	var errs [4]error
	if t.addresses, errs[0] = newAddresses(o.Trust); errs[0] == nil {
		t.key, errs[1] = parseKey(o.Key, t.addresses.key)
	}
	t.only, errs[2] = t.filters("--only", o.Only)
	t.skip, errs[3] = t.filters("--skip", o.Skip)
	return t, errors.Join(errs[:]...)
}

// filter is a condition on a line. The error is that of the key of ip.
type filter func(*accesslog.Line) (bool, error)

func (t *Traffic) filters(flag string, conditions []string) (list []filter, err error) {
	for _, text := range conditions {
		field, pattern, ok := strings.Cut(text, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("%s %q must be FIELD=PATTERN, such as path=/api/*", flag, text)
		}
		matching := regexp.MustCompile(`\A(?s:` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `)\z`)
		list = append(list, func(l *accesslog.Line) (bool, error) {
			switch field {
			case "ip":
				key, err := t.addresses.key(l)
				return matching.MatchString(strings.TrimPrefix(key, "ip:")), err
			case "path":
				u, err := target(l)
				return err == nil && matching.MatchString(u.Path), nil
			}
			return matching.MatchString(l.Value(field)), nil
		})
	}
	return list, nil
}

// wants reports whether a line matches --only and --skip.
func (t *Traffic) wants(l *accesslog.Line) (bool, error) {
	for _, matches := range t.skip {
		if skipped, err := matches(l); err != nil || skipped {
			return false, err
		}
	}
	for _, matches := range t.only {
		if wanted, err := matches(l); err != nil || !wanted {
			return false, err
		}
	}
	return true, nil
}

// BrokenError means that the rest of a log can't be read, such as of a file that
// is cut off. What was read before stays.
type BrokenError struct{ err error }

func (e *BrokenError) Error() string { return e.err.Error() }
func (e *BrokenError) Unwrap() error { return e.err }

// Read adds the requests of a log. It returns a [BrokenError], an
// [UnknownClientError], or the error of ctx.
func (t *Traffic) Read(ctx context.Context, name string, log io.Reader) error {
	t.logs = append(t.logs, name)
	var stopped error
	err := accesslog.Read(log, func(l *accesslog.Line) error {
		if stopped = t.read(name, l); stopped == nil {
			stopped = ctx.Err()
		}
		return stopped
	}, func(line int, why error) { t.unread.add(name, line, why) })
	if err != nil && stopped == nil {
		return &BrokenError{fmt.Errorf("the rest of %s can't be read: %w", show.Visible(name), err)}
	}
	return stopped
}

// read adds the request of a line.
func (t *Traffic) read(log string, l *accesslog.Line) error {
	wanted, err := t.wants(l)
	if err == nil && !wanted {
		t.unwanted.add(log, l.Number, nil)
		return nil
	}
	key := ""
	if err == nil {
		key, err = t.key(l)
	}
	switch {
	case errors.As(err, new(*UnknownClientError)):
		return fmt.Errorf("%s:%d: %w", show.Visible(log), l.Number, err)
	case err != nil:
		t.unknown.add(log, l.Number, err)
	default:
		t.add(key, l)
	}
	return nil
}

func (t *Traffic) add(key string, l *accesslog.Line) {
	client, ok := t.numbers[key]
	if !ok {
		client = int32(len(t.clients))
		t.numbers[key] = client
		t.clients = append(t.clients, key)
	}
	t.requests = append(t.requests, request{l.Time.UnixMicro(), client})
	t.wholeSecs = t.wholeSecs && l.Time.Nanosecond() == 0
	if l.Value("status") == "429" {
		t.tooMany++
	}
}

// sort sorts the requests by time. Those of the same time stay as they were.
func (t *Traffic) sort() {
	slices.SortStableFunc(t.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
}

// LeftOut counts lines that are not replayed for one reason.
type LeftOut struct {
	Lines int64  `json:"lines"`
	Why   string `json:"why"`
	First string `json:"first"` // where the first one is, and what is wrong with it
}

func (o *LeftOut) add(log string, line int, why error) {
	if o.Lines++; o.Lines > 1 {
		return
	}
	o.First = fmt.Sprintf("%s:%d", show.Visible(log), line)
	if why != nil {
		o.First += ": " + why.Error()
	}
}

func (o LeftOut) String() string {
	return fmt.Sprintf("%s left out %s, the first is %s", show.Some(o.Lines, "line"), o.Why, o.First)
}

// leftOut returns for which reasons lines were left out.
func (t *Traffic) leftOut() []LeftOut {
	list := []LeftOut{}
	for _, o := range []LeftOut{t.unread, t.unknown, t.unwanted} {
		if o.Lines > 0 {
			list = append(list, o)
		}
	}
	return list
}

// remarks are what a reader must know about how the logs were read.
func (t *Traffic) remarks() []string {
	list := []string{}
	if t.addresses.ignored {
		list = append(list, "requests have an X-Forwarded-For: if proxies sent it, name them with --trust, or all their clients count as one")
	}
	if t.tooMany > 0 {
		list = append(list, fmt.Sprintf("the log has %s with status 429: clients sent some of the others only because these were denied", show.Some(t.tooMany, "request")))
	}
	if t.wholeSecs {
		list = append(list, "the log's times are whole seconds, so all requests of a second count as sent at once")
	}
	return list
}

func (t *Traffic) from() time.Time { return time.UnixMicro(t.requests[0].at).UTC() }
func (t *Traffic) to() time.Time   { return time.UnixMicro(t.requests[len(t.requests)-1].at).UTC() }
