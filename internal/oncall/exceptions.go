package oncall

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Exceptions is what a process obeys of the exceptions of a policy: what
// adminlimit answers, and the command line reads.
type Exceptions struct {
	Followed  bool        `json:"followed"`                   // the process reads them again and again
	Version   int64       `json:"version"`                    // that it obeys, in µs since 1970; 0: none
	Read      *float64    `json:"read_seconds_ago,omitempty"` // when it read them last; missing: never
	Overrides int         `json:"overrides"`                  // how many it obeys
	Blocks    int         `json:"blocks"`                     // how many it obeys
	Hashed    bool        `json:"hashed,omitempty"`           // keys are hashes
	List      []Exception `json:"list"`                       // in the order of their keys
}

// Exception is an override or a block of a key.
type Exception struct {
	Key     string   `json:"key"`                       // whose exception it is
	Bytes   []byte   `json:"key_base64,omitempty"`      // the key itself, if key is quoted
	Blocked bool     `json:"blocked,omitempty"`         // it is a block
	Limits  []string `json:"limits,omitempty"`          // of an override: the limits that it replaces or multiplies
	EndsIn  float64  `json:"ends_in_seconds,omitempty"` // when it ends; missing: when it is removed
	By      string   `json:"by,omitempty"`              // who set it
	Reason  string   `json:"reason,omitempty"`          // why
}

// ExceptionsOf returns what l obeys at an instant. keys are as text makes them
// of stored ones.
func ExceptionsOf(l *core.Limiter, now time.Time, text func(key string) string) *Exceptions {
	e, f := l.Exceptions(), l.Following()
	x := &Exceptions{Followed: !f.Since.IsZero(), Version: f.Version, Overrides: len(e.Overrides), Blocks: len(e.Blocked), List: []Exception{}}
	if !f.Read.IsZero() {
		ago := max(0, now.Sub(f.Read).Seconds())
		x.Read = &ago
	}
	add := func(key string, limits []core.Limit, note store.ExceptionNote) {
		one := Exception{Key: text(key), Blocked: limits == nil, By: note.By, Reason: note.Reason}
		if limits != nil {
			one.Limits = Texts(limits)
		}
		if !note.Until.IsZero() {
			one.EndsIn = max(1, note.Until.Sub(now).Seconds()) // it is in force
		}
		x.List = append(x.List, one)
	}
	for key, limits := range e.Overrides {
		add(key, limits, e.OverrideNotes[key])
	}
	for _, key := range e.Blocked {
		add(key, nil, e.BlockNotes[key])
	}
	slices.SortFunc(x.List, Exception.compare)
	return x
}

func (e Exception) compare(other Exception) int {
	return strings.Compare(e.Key+"\x00"+strconv.FormatBool(e.Blocked), other.Key+"\x00"+strconv.FormatBool(other.Blocked))
}

// Same reports whether two exceptions are the same, but for their time left.
func (e Exception) Same(other Exception) bool {
	return e.Key == other.Key && e.Blocked == other.Blocked && slices.Equal(e.Limits, other.Limits)
}

// Kind is an override or a block.
func (e Exception) Kind() string {
	if e.Blocked {
		return "block"
	}
	return "override"
}

func (e Exception) Does() string {
	if e.Blocked {
		return "blocked"
	}
	return strings.Join(e.Limits, ", ")
}

func (e Exception) Ends() string {
	if e.EndsIn == 0 {
		return "until it is removed"
	}
	return "ends in " + Duration(time.Duration(e.EndsIn*float64(time.Second)))
}

// EndsBy is when it ends, who has set it, and why, as far as that is known.
func (e Exception) EndsBy() string {
	if e.By+e.Reason == "" {
		return e.Ends()
	}
	return e.Ends() + ", by " + About(store.ExceptionNote{By: e.By, Reason: e.Reason})
}

// Counts is how many there are of each kind.
func (x *Exceptions) Counts() string {
	return Some(int64(x.Overrides), "override") + " and " + Some(int64(x.Blocks), "block")
}

// stale is after how many seconds without news exceptions are old, as in the
// alert RateLimitExceptionsStale.
const stale = 60

// Stale reports whether what is in force may differ from what operators have
// said.
func (x *Exceptions) Stale() bool { return !x.Followed || x.Read == nil || *x.Read > stale }

// Reading is how the exceptions are learnt, and how old they are.
func (x *Exceptions) Reading() string {
	ago := ""
	if x.Read != nil {
		ago = Duration(time.Duration(max(1, *x.Read)*float64(time.Second))) + " ago"
	}
	switch {
	case x.Followed && x.Read == nil:
		return "never read: Redis has not answered since the service follows them"
	case x.Followed:
		return "read " + ago
	case x.Read != nil:
		return "read once, " + ago + ", and not followed since"
	case len(x.List) > 0:
		return "set by the service itself, and not followed in Redis"
	}
	return "not followed: what operators write into Redis changes nothing here"
}

func (x *Exceptions) Since() string { return VersionText(x.Version) }

func VersionText(version int64) string {
	if version == 0 {
		return "no version"
	}
	return "version " + Instant(time.UnixMicro(version))
}

// Instant is a time to the second, in UTC.
func Instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// About is who has set an exception, until when, and why.
func About(note store.ExceptionNote) string {
	text := oneLine(cmp.Or(note.By, Operator))
	if !note.Until.IsZero() {
		text += " until " + Instant(note.Until)
	}
	if note.Reason != "" {
		text += ": " + strconv.Quote(note.Reason)
	}
	return text
}

// oneLine is text that can't steer a terminal: quoted if it has characters that
// nobody can see.
func oneLine(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func Texts(limits []core.Limit) []string {
	list := make([]string, len(limits))
	for i, l := range limits {
		list[i] = l.String()
	}
	return list
}
