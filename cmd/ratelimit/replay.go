package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	replay.Options

	limits, names []string
	policies      string
	html          string
	sample        bool
}

func newReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay LOG...",
		Short: "Say what limits would have denied of the requests in access logs",
		Long: `replay runs the requests of access logs through limits, says what they would have
denied, and the smallest changes that spare 99.9 % of clients. It needs no
Redis: the library decides at the times of the log.

Logs are in the combined or common log format or JSON lines (nginx, Caddy,
Traefik), with gzip or without. The log - is standard input. Lines may be out of
order. All requests are kept in memory, 16 bytes each.

--key says who a client is, as the library's key functions do:
  ip             ByIP, behind the proxies of --trust
  header:NAME    ByHeader, with the value where nginx, Caddy or Traefik log it;
                 header:NAME=FIELD names another field
  path, method   ByPath, ByMethod
  FIELD          any other field of the log
  A+B            Join of both

A line with several addresses, as proxies write them, is refused without
--trust. Fields of the combined format have nginx's names, such as remote_user.
A member of an object in JSON is request.host.`,
		Example: `  ratelimit replay --limit '100/min burst 20' --limit 300/min access.log access.log.1.gz
  ratelimit replay --policies policies.yaml --policy api --trust 10.0.0.0/8 access.log
  ratelimit replay --limit 60/min --key header:x-api-key --only 'path=/api/*' --html report.html caddy.json`,
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.limits, "limit", nil, "a `limit` to try, such as '100/min burst 20'; several are compared")
	flags.StringVar(&f.policies, "policies", "", "try the policies of a `file`")
	flags.StringArrayVar(&f.names, "policy", nil, "of these only the one with this `name`; can be repeated")
	flags.StringVar(&f.Key, "key", "ip", "who a `client` is")
	flags.StringSliceVar(&f.Trust, "trust", nil, "the `proxies` in front of the service, as addresses or ranges such as 10.0.0.0/8")
	flags.StringArrayVar(&f.Only, "only", nil, "leave out other lines than those that match `FIELD=PATTERN`, in which * is any text")
	flags.StringArrayVar(&f.Skip, "skip", nil, "leave out lines that match `FIELD=PATTERN`")
	flags.StringVar(&f.html, "html", "", "write the report as a page to a `file`, too")
	flags.BoolVar(&f.sample, "sample", false, "print a made-up log to try this with")
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, logs []string) error {
	if err := f.check(logs); err != nil {
		return err
	}
	if f.sample {
		return replay.WriteSample(cmd.OutOrStdout())
	}
	policies, err := f.load(cmd)
	if err != nil {
		return err
	}
	traffic, err := replay.NewTraffic(f.Options)
	if err != nil {
		return misuse("%w", err)
	}
	var broken []error // logs whose rest can't be read
	for _, log := range logs {
		if err := readLog(cmd, traffic, log); errors.As(err, new(*replay.BrokenError)) {
			broken = append(broken, err)
		} else if err != nil {
			return err
		}
	}
	report, err := traffic.Replay(cmd.Context(), policies...)
	if err != nil {
		return errors.Join(append(broken, err)...)
	}
	if f.html != "" {
		if err := writePage(f.html, report); err != nil {
			return err
		}
	}
	return errors.Join(append(broken, printResult(cmd, report))...)
}

// check returns an error for flags that don't go together.
func (f *replayFlags) check(logs []string) error {
	switch {
	case f.sample && len(logs)+len(f.limits)+len(f.policies) > 0:
		return misuse("--sample prints a log: write it to a file, and replay that")
	case f.sample:
		return nil
	case len(logs) == 0:
		return misuse("name a log: a file, or - for standard input (--sample prints one to try)")
	case len(f.limits) == 0 && f.policies == "":
		return misuse("say what to try: --limit '100/min burst 20', or --policies FILE")
	case len(f.names) > 0 && f.policies == "":
		return misuse("--policy names a policy in the file of --policies, which is missing")
	case f.policies == "-" && slices.Contains(logs, "-"):
		return misuse("policies and a log can't both come from standard input")
	}
	page, err := os.Stat(f.html)
	for _, input := range append([]string{f.policies}, logs...) {
		if read, e := os.Stat(input); err == nil && e == nil && os.SameFile(page, read) {
			return misuse("--html %s would replace a file that is read: name another one", f.html)
		}
	}
	return nil
}

// load returns the policies to try: those of the file, all or by their names,
// then the limits.
func (f *replayFlags) load(cmd *cobra.Command) (list []replay.Policy, err error) {
	if f.policies != "" {
		policies, err := loadPolicies(cmd, f.policies)
		if err != nil {
			if len(mistakesOf(f.policies, err)) > 0 {
				return nil, misuse("%w", err)
			}
			return nil, err
		}
		all := slices.Sorted(maps.Keys(policies))
		names := f.names
		if len(names) == 0 {
			names = all
		}
		for _, name := range names {
			policy, ok := policies[name]
			if !ok {
				hint := ": it has " + strings.Join(all, ", ")
				if near := nearest(name, all); near != "" {
					hint = ": did you mean " + near + "?"
				}
				return nil, misuse("policy %s is not in %s%s", show.Text(name), f.policies, hint)
			}
			list = append(list, replay.Policy{Policy: policy, Label: name})
		}
	}
	for _, text := range f.limits {
		l, err := core.ParseLimit(text)
		if err != nil {
			return nil, misuse("--limit: %w", err)
		}
		list = append(list, replay.Policy{Policy: core.Policy{Name: "limit", Limits: []core.Limit{l}}, Label: l.String()})
	}
	for _, p := range list {
		if err := p.Check(); err != nil {
			return nil, misuse("%w", err)
		}
	}
	return list, nil
}

// readLog adds the requests of a log.
func readLog(cmd *cobra.Command, traffic *replay.Traffic, name string) error {
	log := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory: name its files, such as %s", name, filepath.Join(name, "*.log"))
		}
		log = f
	}
	ctx, done := cmd.Context(), make(chan error, 1)
	go func() { done <- traffic.Read(ctx, name, log) }()
	select {
	case err := <-done:
		if errors.As(err, new(*replay.UnknownClientError)) {
			return misuse("%w", err)
		}
		return err
	case <-ctx.Done(): // a read of a terminal does not end
		return ctx.Err()
	}
}

func writePage(name string, report *replay.Report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(report.Page(f), f.Close())
}
