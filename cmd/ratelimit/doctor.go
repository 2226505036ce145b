package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// doctorResult is what doctor prints.
type doctorResult struct {
	Findings []finding `json:"findings"` // in the order of the checks
}

// finding is what one check found.
type finding struct {
	Level string `json:"level"`        // ok, note or fault
	Check string `json:"check"`        // what was looked at
	Says  string `json:"says"`         // what was found
	Do    string `json:"do,omitempty"` // what to do
}

// Levels of findings.
const (
	levelOK    = "ok"
	levelNote  = "note"  // worth knowing, and perhaps right
	levelFault = "fault" // to be corrected
)

func (r *doctorResult) add(level, check, says, do string) {
	r.Findings = append(r.Findings, finding{level, check, says, do})
}

func (r *doctorResult) faults() bool {
	return slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Level == levelFault })
}

func (r *doctorResult) Text(w *show.Writer) {
	var rows [][]string
	for _, f := range r.Findings {
		rows = append(rows, []string{f.Level, f.Check, show.Visible(f.Says)})
		if f.Do != "" {
			rows = append(rows, []string{"", "", "→ " + f.Do})
		}
	}
	w.Table(0, nil, rows)
}

func newDoctorCommand() *cobra.Command {
	var (
		f       deskFlags
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with Redis, and say what to do",
		Long: `Find what is wrong with Redis, and say what to do: rights of the user, eviction and
memory, version, round trip beside the store's timeout, clock, nodes of a Cluster,
keys that can't be read, and with --policies limits that were last used under
another definition, by two services with one policy name or a deployment. It
writes keys of the policy ratelimit-doctor, and deletes them. The exit code is 1
if there is a fault.`,
		Example: "  ratelimit doctor --policies policies.yaml -u redis://limiter@redis:6379",
		Args:    cobra.NoArgs,
	}
	f.define(cmd)
	cmd.Flags().DurationVar(&timeout, "store-timeout", 100*time.Millisecond, "the timeout of the service's stores (redisstore.WithTimeout)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, err := f.openAny(cmd, "") // a replica is a finding, and no mistake
		if err != nil {
			return err
		}
		defer d.close()
		ctx, r := cmd.Context(), &doctorResult{}
		if err := d.examine(ctx, r, timeout); err != nil || ctx.Err() != nil { // what failed as ctx ended is no finding
			return errors.Join(err, ctx.Err())
		}
		if err = printResult(cmd, r); err == nil && r.faults() {
			err = errFound
		}
		return err
	}
	return cmd
}

// examine runs all checks. What fails is a finding, and the others go on.
func (d *desk) examine(ctx context.Context, r *doctorResult, timeout time.Duration) error {
	servers := []*redis.Client{}
	switch c := d.client.(type) {
	case *redis.ClusterClient:
		servers = r.nodes(ctx, c, d.flags.timeout)
	case *redis.Client:
		servers = append(servers, c)
	}
	var skews []time.Duration
	for _, one := range servers {
		at := ""
		if len(servers) > 1 {
			at = one.Options().Addr + ": "
		}
		skew, err := r.server(ctx, one, at, timeout)
		if err != nil {
			r.add(levelFault, "server", at+err.Error(), "It answered at first, and then failed: run doctor again.")
			continue
		}
		skews = append(skews, skew)
	}
	if len(skews) > 1 && slices.Max(skews)-slices.Min(skews) > time.Second {
		r.add(levelFault, "clock", "the clocks of the masters differ by "+show.Duration(slices.Max(skews)-slices.Min(skews)),
			"Let NTP run on all of them: a fail-over or a moved slot changes the clock that a limit refills by.")
	}
	if d.role == "replica" || len(servers) == 0 {
		return nil // of what limits do, nothing can be tried
	}
	if err := d.try(ctx, len(servers)); err != nil {
		r.add(levelFault, "rights", d.explain(err).Error(), "Limiters of this user fail alike, and OnFailure decides. docs/operations.md has the ACL user that they need.")
		return nil
	}
	r.add(levelOK, "rights", "this user may do what decisions, slots and resets do", "")
	return d.survey(ctx, r)
}

// try does what decisions do, with keys of its own on about all servers.
func (d *desk) try(ctx context.Context, servers int) error {
	limiter, err := core.NewLimiter(d.store, core.Policy{Name: "ratelimit-doctor", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerSecond(100), core.InFlight(10)}})
	if err != nil {
		return err
	}
	for range 4*servers - 3 {
		key := rand.Text()
		// Decisions send EVAL only if the server has lost the script.
		if err = d.client.Eval(ctx, "return 1", []string{d.flags.prefix + "ratelimit-doctor:" + key}).Err(); err != nil {
			return err
		}
		for range 2 { // a full memory refuses only what changes a key that exists
			res, err := limiter.Allow(ctx, key)
			if err != nil {
				return err
			}
			if err := res.Release(ctx); err != nil {
				return err
			}
		}
		if err := limiter.Reset(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// nodes looks at each node of a Cluster, and returns the masters that answer.
func (r *doctorResult) nodes(ctx context.Context, c *redis.ClusterClient, timeout time.Duration) (masters []*redis.Client) {
	var mu sync.Mutex
	look := func(is string, do string, level string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, one *redis.Client) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			err := one.Ping(ctx).Err()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.add(level, "node", one.Options().Addr+": "+is+" that fails: "+err.Error(), do)
				return nil
			}
			r.add(levelOK, "node", one.Options().Addr+": "+is, "")
			if is == "master" {
				masters = append(masters, one)
			}
			return nil
		}
	}
	err := c.ForEachMaster(ctx, look("master", "OnFailure decides for its keys. Resume or restart it, or have a replica take over: CLUSTER FAILOVER FORCE.", levelFault))
	if err == nil {
		err = c.ForEachSlave(ctx, look("replica", "It can't take over if its master fails.", levelNote))
	}
	if err != nil {
		r.add(levelFault, "node", err.Error(), "Who has which slots can't be read: see redis-cli CLUSTER SLOTS.")
	}
	slices.SortFunc(r.Findings, func(a, b finding) int { return strings.Compare(a.Says, b.Says) })
	slices.SortFunc(masters, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	if len(masters) == 0 {
		return nil
	}
	info, _ := masters[0].ClusterInfo(ctx).Result() // this user may have no right to it
	if strings.Contains(info, "cluster_state:fail") {
		r.add(levelFault, "node", "cluster_state is fail, so requests are refused: slots have no master, or a majority of masters can't reach each other", "See redis-cli --cluster check.")
	}
	return masters
}

// pings is how many round trips are measured.
const pings = 20

// server looks at one server. at begins what is said of it. skew is by how much
// its clock is ahead of this machine's.
func (r *doctorResult) server(ctx context.Context, one *redis.Client, at string, timeout time.Duration) (skew time.Duration, err error) {
	var trips []time.Duration
	for range pings {
		began := time.Now()
		now, err := one.Time(ctx).Result()
		if err != nil {
			return 0, err
		}
		trip := time.Since(began)
		if len(trips) == 0 || trip < slices.Min(trips) { // the clock is known best by the shortest
			skew = now.Sub(began.Add(trip / 2))
		}
		trips = append(trips, trip)
	}
	slices.Sort(trips)
	median, longest := trips[pings/2], trips[pings-1]
	says := fmt.Sprintf("%s%s, the longest of %d %s; the store's timeout is %s", at, show.Duration(median), pings, show.Duration(longest), show.Duration(timeout))
	switch {
	case 2*median > timeout:
		r.add(levelFault, "round trip", says, "A timeout should be above two round trips: set redisstore.WithTimeout, and --store-timeout here.")
	case 2*longest > timeout:
		r.add(levelNote, "round trip", says, "Some calls take nearly as long as the timeout: look for slow commands (SLOWLOG GET), forks and swap on the server.")
	default:
		r.add(levelOK, "round trip", says, "")
	}
	if skew.Abs() > time.Second {
		r.add(levelNote, "clock", at+"the server's clock is "+show.Duration(skew.Abs())+" off this machine's", "Limits follow the server's clock alone. Let NTP slew it, not step it.")
	} else {
		r.add(levelOK, "clock", at+"the server's clock is that of this machine, within a second", "")
	}
	text, err := one.Info(ctx).Result()
	if err != nil {
		r.add(levelNote, "rights", at+"no right to INFO, so version, memory and eviction are not known: "+err.Error(), "Give the user +info, or use another user for this.")
		return skew, nil //nolint:nilerr // it is a finding
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	r.version(at, info)
	r.memory(at, info)
	return skew, nil
}

func (r *doctorResult) version(at string, info map[string]string) {
	version := at + "Redis " + info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		version = at + "Valkey " + v
	}
	switch major, _, _ := strings.Cut(info["redis_version"], "."); {
	case info["role"] == "slave":
		r.add(levelFault, "version", version+", a replica", "Limits need the master: name it in the URL, or its Sentinels with ?master_name=NAME.")
	case len(major) == 1 && major < "6":
		r.add(levelFault, "version", version+" is too old", "The script needs Redis 6.0 or newer, or Valkey.")
	default:
		r.add(levelOK, "version", version+", "+info["redis_mode"], "")
	}
}

func (r *doctorResult) memory(at string, info map[string]string) {
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	switch policy := info["maxmemory_policy"]; {
	case most == 0:
		r.add(levelOK, "eviction", at+"maxmemory has no bound, so no key is dropped", "")
	case policy != "noeviction":
		r.add(levelFault, "eviction", at+"maxmemory-policy is "+policy+": when memory is full, limits are dropped, and a dropped limit is full again",
			"CONFIG SET maxmemory-policy noeviction; if other data must be dropped, give the limits a server of their own.")
	default:
		r.add(levelOK, "eviction", at+"maxmemory-policy is noeviction", "")
	}
	if evicted := info["evicted_keys"]; evicted != "" && evicted != "0" {
		r.add(levelNote, "eviction", at+evicted+" keys were dropped since the server started", "Limits among them started full. Raise maxmemory, or see what fills it (redis-cli --bigkeys).")
	}
	if most > 0 && used*10 > most*9 {
		r.add(levelFault, "memory", at+show.Percent(used, most)+" of maxmemory are used", "Raise maxmemory. When it is full, grants fail and OnFailure decides.")
	}
}
