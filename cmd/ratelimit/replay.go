//go:build ignore

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/report"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/samplelog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

var replayCommand = cli.Command{
	Name: "replay", Args: "LOG…", Most: -1,
	About: "run the requests of access logs through policies, and print what would be denied",
	Details: `It needs no Redis: the library decides at the times of the log. Logs are read in the combined format, as JSON lines, or as CSV
with names in the first line; compressed by gzip or not. The log - is standard input. Lines may be out of order.

  ratelimit replay -policies policies.yaml -policy api access.log access.log.1.gz
  ratelimit replay -limit '100/min burst 20' -limit '300/min' -only 'path=/api/*' access.log
  ratelimit replay -policies policies.yaml -key 'header:x-api-key=api_key' -field time=when -html report.html requests.json

-key says who a client is, as the key functions do:
  ip, method, path             ByIP, ByMethod, ByPath
  route=FIELD                  ByRoute, with the pattern in a field
  header:NAME=FIELD            ByHeader(NAME), with the value in a field; so cookie, param, value
  query:NAME                   ByQuery(NAME), of the request's target
  global:NAME                  Global(NAME)
  FIELD                        the key FIELD:VALUE of any other field
  A+B                          Join(A, B)
A field is ip, method, path, target, status, user_agent, or one of the log by its name: request.headers.Host is a member of a member.

All requests are in memory, in about 60 bytes each. Times without a zone are of the -zone.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var r replayFlags
		r.define(flags)
		return r.run
	},
}

// replayFlags are the flags of the command replay.
type replayFlags struct {
	policies, names, limits []string
	only, skip              []string
	fields, units           map[string]string
	key, format, cost       string
	plan, plans             string
	keys, html, zone        string
	spare                   float64
	ipv6Prefix              int
	asJSON, sample          bool
}

func (r *replayFlags) define(flags *flag.FlagSet) {
	list := func(to *[]string, name, usage string) {
		flags.Func(name, usage, func(v string) error { *to = append(*to, v); return nil })
	}
	pairs := func(to *map[string]string, name, usage string) {
		*to = make(map[string]string)
		flags.Func(name, usage, func(v string) error {
			left, right, ok := strings.Cut(v, "=")
			if !ok || left == "" || right == "" {
				return errors.New("write NAME=FIELD")
			}
			(*to)[left] = right
			return nil
		})
	}
	list(&r.policies, "policies", "the policy `file`; several are compared")
	list(&r.names, "policy", "the `name` of a policy in the files; several are compared; without it, all are")
	list(&r.limits, "limit", "a `limit` to try, such as '100/min burst 20'; several are compared")
	list(&r.only, "only", "replay lines alone that match `FIELD=PATTERN`, in which * is any text")
	list(&r.skip, "skip", "leave out lines that match `FIELD=PATTERN`, in which * is any text")
	pairs(&r.fields, "field", "which field of the log is time, ip, method, target or status, as `NAME=FIELD`")
	pairs(&r.units, "units", "the field with how much of a unit a request takes, as `UNIT=FIELD`")
	flags.StringVar(&r.key, "key", "ip", "who a `client` is")
	flags.StringVar(&r.format, "format", "auto", "the `format` of the logs: auto, combined, json or csv")
	flags.StringVar(&r.plan, "plan", "", "the `field` with the name of the plan that a request has: the report has each plan of a policy for itself")
	flags.StringVar(&r.plans, "plans", "", "a `file` of lines KEY,PLAN, in CSV: the plans of keys, before those of -plan")
	flags.StringVar(&r.cost, "cost", "", "the `field` with how many requests a line counts as")
	defineKeys(flags, &r.keys)
	flags.StringVar(&r.html, "html", "", "write a page with plots to `file` too")
	flags.StringVar(&r.zone, "zone", "UTC", "the time `zone` of the report, and of times in logs that have none, such as Europe/Berlin")
	flags.Float64Var(&r.spare, "spare", replay.Spare, "the `percentage` of clients that a change must spare")
	flags.IntVar(&r.ipv6Prefix, "ipv6-prefix", 64, "the leading `bits` of an IPv6 address that are one client")
	flags.BoolVar(&r.asJSON, "json", false, "print JSON")
	flags.BoolVar(&r.sample, "sample", false, "print a log to try this with, and do nothing else")
}

func (r *replayFlags) run(ctx context.Context, s cli.Streams, logs []string) error {
	if r.sample {
		return samplelog.Write(s.Out)
	}
	c, rep, err := r.check(s, logs)
	if err != nil {
		return err
	}
	policies, err := loadLabelled(s.In, r.policies, r.names, r.limits)
	if err != nil {
		return err
	}
	p := newProgress(s)
	defer p.clear()
	for _, log := range logs {
		if err := readLog(ctx, s.In, log, c, p); err != nil {
			return err
		}
	}
	t, err := c.Traffic()
	rep.Traffic, rep.Logs = t, logs
	if err != nil {
		p.clear()
		return t.Why(err, rep.Keys.Hidden())
	}
	done, all := int64(0), t.Requests*int64(len(policies))
	for _, policy := range policies {
		outcomes, err := t.Play(ctx, policy.label, policy.Policy, replay.Share(r.spare), func(n int) {
			done += int64(n)
			p.show("replaying", done, all)
		})
		switch {
		case ctx.Err() != nil:
			return cli.After(err, "%s of %s were decided.", show.Count(done), show.Some(all, "request"))
		case err != nil:
			return cli.Misuse("%v", err)
		}
		rep.Outcomes = append(rep.Outcomes, outcomes...)
	}
	p.clear()
	return r.write(s, rep)
}

// check returns what collects the traffic, and a report without it, or an error
// for mistakes in flags.
func (r *replayFlags) check(s cli.Streams, logs []string) (*replay.Collector, *report.Report, error) {
	switch {
	case len(logs) == 0:
		return nil, nil, cli.Misuse("replay needs a log: a file, or - for standard input")
	case len(r.policies)+len(r.limits) == 0:
		return nil, nil, cli.Misuse("replay needs -policies FILE or -limit LIMIT, such as -limit '100/min burst 20'")
	case slices.Contains(logs, "-") && slices.Contains(r.policies, "-"):
		return nil, nil, cli.Misuse("policies and a log can't both come from standard input")
	case r.html != "" && slices.Contains(slices.Concat(logs, r.policies), r.html):
		return nil, nil, cli.Misuse("-html %s is read too: name another file to write", r.html)
	case !slices.Contains(accesslog.Formats, r.format):
		return nil, nil, cli.Misuse("-format %q must be auto, combined, json or csv", r.format)
	case !(r.spare > 0 && r.spare <= 100):
		return nil, nil, cli.Misuse("-spare %v must be above 0 and at most 100", r.spare)
	}
	zone, err := accesslog.ParseZone(r.zone)
	if err != nil {
		return nil, nil, cli.Misuse("-zone %v", err)
	}
	keys, err := show.ParseKeys(r.keys, s.Env(show.SecretVariable))
	if err != nil {
		return nil, nil, cli.Misuse("%v", err)
	}
	options := r.options(zone)
	if options.Plans, err = readPlans(r.plans); err != nil {
		return nil, nil, err
	}
	c, err := replay.NewCollector(options)
	if err != nil {
		return nil, nil, cli.Misuse("%v", err)
	}
	return c, &report.Report{Keys: keys, Zone: zone}, nil
}

func (r *replayFlags) options(zone *time.Location) replay.Options {
	return replay.Options{
		Log: accesslog.Options{Format: r.format, Fields: r.fields, Zone: zone}, Key: r.key, IPv6Prefix: r.ipv6Prefix,
		Only: r.only, Skip: r.skip, Cost: r.cost, Units: r.units, Plan: r.plan,
	}
}

// readPlans reads a file of keys and their plans.
func readPlans(name string) (map[string]string, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no file has no plans
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines := csv.NewReader(f)
	lines.FieldsPerRecord = 2
	rows, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("-plans %s: %w: each line must be KEY,PLAN", name, err)
	}
	plans := make(map[string]string, len(rows))
	for _, row := range rows {
		plans[row[0]] = row[1]
	}
	return plans, nil
}

func (r *replayFlags) write(s cli.Streams, rep *report.Report) error {
	if r.html != "" {
		f, err := os.Create(r.html)
		if err != nil {
			return err
		}
		if err := errors.Join(rep.HTML(f), f.Close()); err != nil {
			return err
		}
	}
	text := rep.Text
	if r.asJSON {
		text = rep.JSON
	}
	if err := text(s.Out); err != nil {
		return err
	}
	if len(rep.Traffic.Broken) > 0 {
		return fmt.Errorf("not all was read: %w", errors.Join(rep.Traffic.Broken...))
	}
	return nil
}

// readLog adds the requests of a log.
func readLog(ctx context.Context, in io.Reader, name string, c *replay.Collector, p *progress) error {
	source := in
	size := int64(0)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory: name its files, such as %s", name, filepath.Join(name, "*.log"))
		}
		if err != nil {
			return err
		}
		source, size = f, info.Size()
	}
	counted := &counter{r: cli.Reader(ctx, source)}
	err := c.Read(name, counted, func() error {
		p.show(fmt.Sprintf("reading %s, %s lines", show.Visible(filepath.Base(name)), show.Count(c.Lines())), counted.n, size)
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return cli.After(ctx.Err(), "%s were read.", show.Some(c.Lines(), "line"))
	}
	return err
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
