package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Servers looks at servers that have keys and answer. timeout is that of the
// service's stores.
func Servers(ctx context.Context, servers []*redis.Client, timeout time.Duration) (f Findings) {
	var skews []time.Duration
	for _, one := range servers {
		skew, err := f.server(ctx, one, timeout)
		if err != nil {
			f.add("node", Fault, one.Options().Addr+": "+err.Error(), "It answered at first, and then failed: run doctor again.")
			continue
		}
		skews = append(skews, skew)
	}
	if len(skews) > 1 {
		if apart := slices.Max(skews) - slices.Min(skews); apart > time.Second {
			f.add("clock", Fault, "the clocks of the masters differ by "+show.Duration(apart),
				"Let NTP run on all of them: a fail-over or a moved slot changes the clock that a limit refills by.")
		}
	}
	return f
}

// server looks at one server. skew is by how much its clock is ahead of this
// machine's.
func (f *Findings) server(ctx context.Context, one *redis.Client, timeout time.Duration) (skew time.Duration, err error) {
	if skew, err = f.roundTrips(ctx, one, timeout); err != nil {
		return 0, err
	}
	text, err := one.Info(ctx).Result()
	if err != nil {
		f.add("rights", Note, one.Options().Addr+": no right to INFO, so version, memory and eviction are not known: "+err.Error(), "Give the user +info, or use another user for this.")
		return skew, nil //nolint:nilerr // it is a finding
	}
	info, before := infoOf(text), len(*f)
	f.version(info)
	f.memory(info)
	f.scripts(info)
	for i := before; i < len(*f); i++ {
		(*f)[i].Says = one.Options().Addr + ": " + (*f)[i].Says
	}
	return skew, nil
}

// infoOf reads the reply of INFO.
func infoOf(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// pings is how many round trips are measured.
const pings = 20

// roundTrips measures round trips and the clock.
func (f *Findings) roundTrips(ctx context.Context, one *redis.Client, timeout time.Duration) (skew time.Duration, err error) {
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
	median, longest := trips[len(trips)/2], trips[len(trips)-1]
	says := fmt.Sprintf("%s: %s, the longest of %d %s; the store's timeout is %s", one.Options().Addr, show.Duration(median), pings, show.Duration(longest), show.Duration(timeout))
	switch {
	case 2*median > timeout:
		f.add("round trip", Fault, says, "A timeout should be above two round trips: set redisstore.WithTimeout, or move the services closer. (From this machine; -store-timeout is what the service has.)")
	case 2*longest > timeout:
		f.add("round trip", Note, says, "Some calls take nearly as long as the timeout: look for slow commands (SLOWLOG GET), forks and swap on the server.")
	default:
		f.add("round trip", OK, says, "")
	}
	switch {
	case skew.Abs() > time.Second:
		ahead := "ahead of"
		if skew < 0 {
			ahead = "behind"
		}
		f.add("clock", Note, fmt.Sprintf("%s: the server's clock is %s %s this machine's", one.Options().Addr, show.Duration(skew.Abs()), ahead),
			"Limits follow the server's clock alone; Aligned ones begin their periods by it. Let NTP slew it, not step it.")
	default:
		f.add("clock", OK, one.Options().Addr+": the server's clock is that of this machine, within a second", "")
	}
	return skew, nil
}

// aReplica ends the finding about a replica.
const aReplica = ", a replica"

func (f *Findings) version(info map[string]string) {
	version := "Redis " + info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		version = "Valkey " + v
	}
	switch major, _, _ := strings.Cut(info["redis_version"], "."); {
	case info["role"] == "slave":
		f.add("version", Fault, version+aReplica, "Limits need the master: name it by -h, or let Sentinel or the Cluster name it.")
	case len(major) == 1 && major < "6":
		f.add("version", Fault, version+" is too old", "The script needs Redis 6.0 or newer, or Valkey.")
	default:
		f.add("version", OK, version+", "+info["redis_mode"], "")
	}
}

func (f *Findings) memory(info map[string]string) {
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	policy := info["maxmemory_policy"]
	switch {
	case most == 0:
		f.add("eviction", OK, "maxmemory has no bound, so no key is dropped", "")
	case policy != "noeviction":
		f.add("eviction", Fault, "maxmemory-policy is "+policy+": when memory is full, limits are dropped, and a dropped limit is full again",
			"CONFIG SET maxmemory-policy noeviction; if other data must be dropped, give the limits a server of their own (RL714).")
	default:
		f.add("eviction", OK, "maxmemory-policy is noeviction", "")
	}
	if evicted := info["evicted_keys"]; evicted != "" && evicted != "0" {
		f.add("eviction", Note, evicted+" keys were dropped since the server started", "Limits among them started full. Raise maxmemory, or see what fills it (redis-cli --bigkeys).")
	}
	if most > 0 && used*10 > most*9 {
		f.add("memory", Fault, fmt.Sprintf("%s of maxmemory are used", show.Percent(used, most)), "Raise maxmemory. When it is full, grants fail and OnFailure decides.")
	}
}

// manyScripts is more than services load that send the same scripts each time.
const manyScripts = 500

func (f *Findings) scripts(info map[string]string) {
	n, err := strconv.Atoi(info["number_of_cached_scripts"])
	switch {
	case err != nil: // before Redis 4
	case n > manyScripts:
		f.add("scripts", Fault, fmt.Sprintf("%s scripts are cached, in %s", show.Count(int64(n)), info["used_memory_scripts_human"]),
			"Some client puts values into the text of scripts: pass them as arguments. SCRIPT FLUSH frees the memory; limiters load theirs again.")
	default:
		f.add("scripts", OK, show.Some(int64(n), "script")+" cached", "")
	}
}
