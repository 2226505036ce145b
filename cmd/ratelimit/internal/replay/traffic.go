// Package replay runs the requests of access logs through policies, on a clock
// of its own and without Redis.
package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// event is one request.
type event struct {
	at    int64 // µs since 1970
	cost  int64
	units int32 // index in Traffic.units; -1: it takes requests alone
	plan  int32 // index in Traffic.plans
}

// Problem counts lines of one kind that were left out, and tells of the first.
type Problem struct {
	Count int64
	File  string
	Line  int
	Why   string // what is wrong with the first; text of the line is not part of it
	Text  string // the first line's begin
}

func (p *Problem) note(file string, line int, text string, err error) {
	if p.Count++; p.Count == 1 {
		p.File, p.Line, p.Why, p.Text = show.Visible(file), line, err.Error(), text
	}
}

// Traffic is what logs have of the requests of clients. A request takes 24
// bytes of memory, and 32 more while it is collected.
type Traffic struct {
	Keys       []string
	Lines      int64 // that could be read, with those that a filter left out
	Requests   int64
	Left       int64 // left out by filters
	Denied     int64 // requests that the log has with status 429
	Unread     Problem
	Keyless    Problem
	Broken     []error // files whose rest could not be read
	WholeSecs  bool    // every time is a whole second
	Zoneless   int64   // requests whose times have no zone
	Twice      int64   // of them, at times that clocks show twice because they go back
	From, To   int64   // of the first and the last request, in µs since 1970
	units      []core.Units
	events     []event // by key, and each key's by time
	starts     []int32 // of each key's events, and the end
	unitsNamed []string
	plans      []string // of requests; the first is "", which is that of requests that have none
	hasCost    bool
}

// Options say how lines become requests.
type Options struct {
	Log        accesslog.Options
	Key        string
	IPv6Prefix int
	Only, Skip []string          // FIELD=PATTERN
	Cost       string            // the field with how many requests a line counts as; "": 1
	Units      map[string]string // fields by the unit whose number they have
	Plan       string            // the field with the name of the request's plan; "": there is none
	Plans      map[string]string // plans by key, before Plan
}

// filter is a condition on a field.
type filter struct {
	field   string
	pattern *regexp.Regexp
}

func parseFilters(name string, list []string) (filters []filter, err error) {
	for _, text := range list {
		field, pattern, ok := strings.Cut(text, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("%s %q must be FIELD=PATTERN, such as path=/api/*", name, text)
		}
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		filters = append(filters, filter{field, regexp.MustCompile(`\A(?s:` + strings.Join(parts, ".*") + `)\z`)})
	}
	return filters, nil
}

func (f filter) matches(l *accesslog.Line) bool { return f.pattern.Match(l.Value(f.field)) }

// Collector collects the traffic of logs.
type Collector struct {
	o          Options
	ids        *ids
	only, skip []filter
	unitNames  []string
	plans      map[string]int32
	traffic    Traffic
	log        []entry
}

// entry is an event in the order of the logs.
type entry struct {
	event
	key int32
}

// NewCollector returns an error if options are wrong.
func NewCollector(o Options) (*Collector, error) {
	if o.IPv6Prefix == 0 {
		o.IPv6Prefix = 64
	}
	if err := o.Log.Check(); err != nil {
		return nil, fmt.Errorf("-field %w", err)
	}
	spec, err := parseKeySpec(o.Key, o.IPv6Prefix)
	if err != nil {
		return nil, err
	}
	c := &Collector{o: o, ids: newIDs(spec), unitNames: slices.Sorted(maps.Keys(o.Units)), plans: map[string]int32{"": 0}}
	c.traffic.plans = []string{""}
	c.traffic.WholeSecs, c.traffic.unitsNamed, c.traffic.hasCost = true, c.unitNames, o.Cost != ""
	if c.only, err = parseFilters("-only", o.Only); err != nil {
		return nil, err
	}
	c.skip, err = parseFilters("-skip", o.Skip)
	return c, err
}

// Lines is how many lines were read so far.
func (c *Collector) Lines() int64 { return c.traffic.Lines + c.traffic.Unread.Count }

// Bad notes a line that can't be read.
func (c *Collector) Bad(file string, b accesslog.Bad) {
	c.traffic.Unread.note(file, b.Number, b.Text, b.Err)
}

// Broken notes that the rest of a file can't be read.
func (c *Collector) Broken(err error) { c.traffic.Broken = append(c.traffic.Broken, err) }

// Add adds a line of a file.
func (c *Collector) Add(file string, l *accesslog.Line) {
	t := &c.traffic
	matches := func(f filter) bool { return f.matches(l) }
	if slices.ContainsFunc(c.skip, matches) || slices.ContainsFunc(c.only, func(f filter) bool { return !matches(f) }) {
		t.Lines++
		t.Left++
		return
	}
	e := entry{event: event{at: l.Micros, cost: 1, units: -1}}
	var err error
	if e.key, err = c.ids.of(l); err != nil {
		t.Lines++
		t.Keyless.note(file, l.Number, "", err)
		return
	}
	if err := c.charge(&e.event, l); err != nil {
		t.Unread.note(file, l.Number, "", err)
		return
	}
	e.plan = c.planOf(l, e.key)
	t.Lines++
	if string(l.Value("status")) == "429" {
		t.Denied++
	}
	t.WholeSecs = t.WholeSecs && e.at%1_000_000 == 0
	if l.Zoneless {
		t.Zoneless++
	}
	if l.Twice {
		t.Twice++
	}
	c.log = append(c.log, e)
}

// planOf returns the index of a request's plan.
func (c *Collector) planOf(l *accesslog.Line, key int32) int32 {
	name, ok := c.o.Plans[c.ids.keys[key]]
	if !ok && c.o.Plan != "" {
		name = string(l.Value(c.o.Plan))
	}
	i, ok := c.plans[name]
	if !ok {
		i = int32(len(c.traffic.plans))
		c.plans[name] = i
		c.traffic.plans = append(c.traffic.plans, name)
	}
	return i
}

// charge sets what an event takes.
func (c *Collector) charge(e *event, l *accesslog.Line) (err error) {
	if c.o.Cost != "" {
		if e.cost, err = amount(l, c.o.Cost); err != nil {
			return err
		}
	}
	if len(c.unitNames) == 0 {
		return nil
	}
	units := core.Units{}
	if c.o.Cost != "" { // else it is 1, and need not be counted
		units[core.Requests] = e.cost
	}
	for _, unit := range c.unitNames {
		if units[unit], err = amount(l, c.o.Units[unit]); err != nil {
			return err
		}
	}
	e.units = int32(len(c.traffic.units))
	c.traffic.units = append(c.traffic.units, units)
	return nil
}

// maxCost bounds what one line takes, so that sums stay in range.
const maxCost = 1_000_000_000_000

func amount(l *accesslog.Line, field string) (int64, error) {
	text := string(l.Value(field))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxCost {
		return 0, fmt.Errorf("%s must be a whole number from 0 to %d", field, maxCost)
	}
	return n, nil
}

// ErrNothing means that no line is a request.
var ErrNothing = errors.New("no line is a request")

// Traffic returns what was collected. Lines that are out of order are in order
// there: each key's requests are sorted by time, and those of the same time
// stay as they were.
func (c *Collector) Traffic() (*Traffic, error) {
	t := &c.traffic
	t.Keys, t.Requests = c.ids.keys, int64(len(c.log))
	t.starts = make([]int32, len(t.Keys)+1)
	for _, e := range c.log {
		t.starts[e.key+1]++
	}
	for i := range t.Keys {
		t.starts[i+1] += t.starts[i]
	}
	next := slices.Clone(t.starts)
	t.events = make([]event, len(c.log))
	for i, e := range c.log {
		if t.events[next[e.key]] = e.event; i == 0 || e.at < t.From {
			t.From = e.at
		}
		t.To = max(t.To, e.at)
		next[e.key]++
	}
	c.log = nil
	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	for key := range t.Keys {
		if of := t.of(key); !slices.IsSortedFunc(of, byTime) {
			slices.SortStableFunc(of, byTime)
		}
	}
	if t.Requests == 0 {
		return t, ErrNothing
	}
	return t, nil
}

// of returns the events of a key.
func (t *Traffic) of(key int) []event { return t.events[t.starts[key]:t.starts[key+1]] }
