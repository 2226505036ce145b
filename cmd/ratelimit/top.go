package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replica"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var topCommand = cli.Command{
	Name: "top", Args: "URL…", Least: 1, Most: -1,
	About: "say who is denied most, summed over the replicas of a service",
	Details: `Each URL is that of the adminlimit handler of one process, which needs adminlimit.WithDenied. The address of a load balancer would answer
for another process each time.

  ` + replica.UserVariable + `=ann:… ratelimit top http://app-1:8080/admin/limits http://app-2:8080/admin/limits
  ` + replica.HeaderVariable + `='Authorization: Bearer …' ratelimit top -policy api https://app-1/admin/limits

Of each key it prints how often it was denied at least and at most, and its share of the policy's denials. Replicas count for one to two
windows (denied.WithWindow), and the output says how long these are now. Some replicas may keep hashes and others keys:
` + show.SecretVariable + ` and -keys hash add these up.

The exceptions that the replicas obey follow, with their end, author and reason,
and where replicas differ.

The exit code is 3 if some replicas can't be read. What the others count is printed all the same.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var t topFlags
		t.replicas.Define(flags)
		defineKeys(flags, &t.mode)
		flags.StringVar(&t.policy, "policy", "", "the `name` of the only policy to show")
		flags.IntVar(&t.most, "n", 10, "how many `keys` of each policy to show")
		flags.BoolVar(&t.watch, "watch", false, "show it again each second, until interrupted")
		flags.BoolVar(&t.asJSON, "json", false, "print a JSON object; with -watch, one a line")
		return t.run
	},
}

// topFlags are the flags of the command top.
type topFlags struct {
	replicas      replica.Flags
	mode, policy  string
	most          int
	watch, asJSON bool
}

func (t *topFlags) run(ctx context.Context, s cli.Streams, urls []string) error {
	if t.most < 1 || t.most > 1000 {
		return cli.Misuse("-n %d must be from 1 to 1000", t.most)
	}
	keys, err := show.ParseKeys(t.mode, s.Env(show.SecretVariable))
	if err != nil {
		return cli.Misuse("%v", err)
	}
	replicas, err := t.replicas.Replicas(urls, s.Env)
	if err != nil {
		return err
	}
	once := func() (*ranking, error) {
		r := rank(replica.Read(ctx, replicas), keys)
		if ctx.Err() != nil { // it is not the replicas that don't answer
			return r, ctx.Err()
		}
		if err := t.choose(r, keys); err != nil {
			return r, err
		}
		if t.asJSON {
			return r, printing(t.watch)(s.Out, r)
		}
		return r, r.write(s.Out)
	}
	if t.watch {
		return watch(ctx, s.Out, t.asJSON, func() error {
			_, err := once()
			return err
		})
	}
	r, err := once()
	if err == nil && r.lost > 0 {
		err = fmt.Errorf("%d of %s can't be read", r.lost, show.Some(int64(len(urls)), "replica"))
	}
	return err
}

// choose leaves in r what is to be shown.
func (t *topFlags) choose(r *ranking, keys show.Keys) error {
	if t.policy != "" {
		names := slices.Sorted(maps.Keys(r.inForce))
		if !slices.Contains(names, t.policy) && len(names) > 0 {
			return cli.Misuse("no replica has the policy %s%s", show.Text(t.policy), nearest(t.policy, names))
		}
		r.Policies = slices.DeleteFunc(r.Policies, func(p ranked) bool { return p.Policy.Policy != t.policy })
		maps.DeleteFunc(r.Differ, func(name string, _ map[string][]string) bool { return name != t.policy })
		r.InForce = slices.DeleteFunc(r.InForce, func(p inForce) bool { return p.Policy != t.policy })
	}
	for i := range r.Policies {
		r.Policies[i].Policy = r.Policies[i].Top(t.most)
		r.Policies[i].list(r.Hashed, keys)
	}
	r.most = t.most
	return nil
}

// ranking is what the replicas count together.
type ranking struct {
	output.Head

	Replicas []replica.Answer `json:"replicas"` // in the order of the command line
	Hashed   bool             `json:"hashed"`   // all keys are hashes
	Mixed    bool             `json:"mixed"`    // some replicas keep hashes, and others keys
	Policies []ranked         `json:"policies"` // those that deny, most denials first
	InForce  []inForce        `json:"in_force"` // exceptions that some replica obeys, by policy

	// Differ has the policies whose definitions differ: the replicas by the
	// hash of theirs.
	Differ map[string]map[string][]string `json:"differ,omitempty"`

	// Alike are URLs that answer the same: perhaps those of one process, which
	// is then counted twice.
	Alike [][2]string `json:"alike,omitempty"`

	lost    int // replicas that can't be read
	most    int // how many exceptions of each policy the text shows
	inForce map[string]bool
}

// ranked is who is denied most of a policy.
type ranked struct {
	denied.Policy

	Shortest float64 `json:"shortest_window_seconds"` // that a replica has counted
	Longest  float64 `json:"longest_window_seconds"`  // that a replica has counted

	Listed []listedKey `json:"keys"` // who is denied most, in place of the policy's
}

// listedKey is a key as it may be shown.
type listedKey struct {
	denied.Key

	Bytes []byte `json:"key_base64,omitempty"` // the key itself, if key is quoted
}

// list makes the list of keys as they may be shown.
func (p *ranked) list(hashed bool, keys show.Keys) {
	p.Listed = make([]listedKey, len(p.Keys))
	for i, k := range p.Keys {
		listed := listedKey{Key: k}
		if !hashed {
			listed.Key.Key, listed.Bytes = keys.Text(k.Key), keys.Bytes(k.Key)
		}
		p.Listed[i] = listed
	}
}

// rank adds up answers, the policy with most denials first.
func rank(answers []replica.Answer, keys show.Keys) *ranking {
	r := &ranking{Replicas: answers, Policies: []ranked{}, Differ: make(map[string]map[string][]string), inForce: make(map[string]bool)}
	var reports []denied.Report
	windows := make(map[string][]float64)
	plain, seen := 0, make(map[string]string)
	for i := range answers {
		a := &answers[i]
		if a.Error == "" && a.Denied == nil {
			a.Error, a.Policies = "nothing counts who is denied there: the service needs adminlimit.WithDenied", nil
		}
		if a.Error != "" {
			r.lost++
			continue
		}
		for _, p := range a.Policies {
			r.inForce[p.Name] = true
			if r.Differ[p.Name] == nil {
				r.Differ[p.Name] = make(map[string][]string)
			}
			r.Differ[p.Name][p.Hash] = append(r.Differ[p.Name][p.Hash], a.URL)
		}
		for _, p := range a.Denied.Policies {
			r.inForce[p.Policy] = true
			windows[p.Policy] = append(windows[p.Policy], p.Until.Sub(p.From).Seconds())
		}
		if same := alike(a.Denied); seen[same] == "" {
			seen[same] = a.URL
		} else if len(a.Denied.Policies) > 0 {
			r.Alike = append(r.Alike, [2]string{seen[same], a.URL})
		}
		report := *a.Denied
		if !report.Hashed {
			rewrite(report.Policies, asGiven)
		}
		if !report.Hashed && keys.Hashes() { // so that they add up with hashes of others
			report.Hashed = true
			rewrite(report.Policies, keys.Text)
		}
		if !report.Hashed {
			plain++
		}
		reports = append(reports, report)
	}
	r.InForce = inForceAt(answers, keys)
	maps.DeleteFunc(r.Differ, func(_ string, byHash map[string][]string) bool { return len(byHash) == 1 })
	sum := denied.Merge(reports...)
	r.Hashed, r.Mixed = sum.Hashed, plain > 0 && plain < len(reports)
	for _, p := range sum.Policies {
		w := windows[p.Policy]
		r.Policies = append(r.Policies, ranked{Policy: p, Shortest: slices.Min(w), Longest: slices.Max(w)})
	}
	slices.SortStableFunc(r.Policies, func(a, b ranked) int { return cmp.Compare(b.Denied, a.Denied) })
	return r
}

// alike is a text that reports of one process have in common, while nobody is
// denied.
func alike(r *denied.Report) string {
	var b strings.Builder
	for _, p := range r.Policies {
		p.Until = time.Time{}
		_, _ = fmt.Fprintf(&b, "%+v", p)
	}
	return b.String()
}

// asGiven returns a key of a replica as it was: the replica shows it so that it
// can be given back.
func asGiven(shown string) string {
	key, err := oncall.GivenKey(shown)
	if err != nil {
		return shown
	}
	return key
}

// rewrite replaces the keys of policies.
func rewrite(policies []denied.Policy, text func(string) string) {
	for _, p := range policies {
		for i := range p.Keys {
			p.Keys[i].Key = text(p.Keys[i].Key)
		}
	}
}

// span is for how long replicas have counted.
func (p *ranked) span() string {
	of := func(seconds float64) string { return show.Duration(time.Duration(seconds * float64(time.Second))) }
	if p.Longest-p.Shortest < 60 {
		return "in " + of(p.Longest)
	}
	return "in " + of(p.Shortest) + " to " + of(p.Longest) + ", as long as each replica counts"
}

// differences are lines about policies that are not the same everywhere.
func (r *ranking) differences() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Differ)) {
		var parts []string
		for _, hash := range slices.Sorted(maps.Keys(r.Differ[name])) {
			parts = append(parts, show.Text(hash)+" at "+strings.Join(r.Differ[name][hash], ", "))
		}
		lines = append(lines, fmt.Sprintf("%s is not the same in all replicas: %s", show.Text(name), strings.Join(parts, "; ")))
	}
	return lines
}
