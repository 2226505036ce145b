package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Sentinels looks at what Sentinels say, at the master that they name, and at
// its replicas. It returns the master's address.
func Sentinels(ctx context.Context, l *conn.Link) (f Findings, master string) {
	list := l.Sentinels(ctx)
	var known *conn.Sentinel
	disagree := false
	for i := range list {
		s := &list[i]
		defer func() { _ = s.Client.Close() }()
		switch {
		case s.Err != nil:
			f.add("sentinel", Fault, s.Err.Error(), "A majority of the Sentinels must run, or nobody replaces a master that fails.")
			continue
		case known == nil:
			known = s
		case known.Master != s.Master:
			disagree = true
		}
		f.add("sentinel", OK, s.Addr+": the master is "+s.Master, "")
	}
	if known == nil {
		return f, ""
	}
	if disagree {
		f.add("sentinel", Fault, "the Sentinels name different masters: services may take tokens from two servers", "During a fail-over this lasts for seconds. If it stays, compare SENTINEL MASTERS on each.")
	}
	if l.Silent != nil {
		f.add("master", Fault, known.Master+" fails: "+l.Silent.Error(), "OnFailure decides until it answers, or Sentinel has a replica take over, after down-after-milliseconds.")
	}
	f.replicas(ctx, l, known)
	return f, known.Master
}

// replicas looks at the replicas that a Sentinel knows.
func (f *Findings) replicas(ctx context.Context, l *conn.Link, s *conn.Sentinel) {
	replicas, err := l.Replicas(ctx, s)
	if err != nil {
		f.add("replica", Note, s.Addr+": no right to SENTINEL REPLICAS: "+err.Error(), "Use another user of the Sentinels for this.")
		return
	}
	able := 0
	for _, r := range replicas {
		says := r.Addr + ": replica of " + s.Master
		switch {
		case r.Err != nil:
			f.add("replica", Note, r.Err.Error()+" (replica of "+s.Master+")", "It can't take over: resume or restart it.")
		case strings.Contains(r.Flags, "down") || strings.Contains(r.Flags, "disconnected"):
			f.add("replica", Note, says+", which Sentinel does not reach ("+r.Flags+")", "Sentinel does not choose it.")
			able++
		case !r.Follows:
			f.add("replica", Note, says+", which its master does not reach now", "It lacks what its master has written since.")
			able++
		default:
			f.add("replica", OK, says, "")
			able++
		}
	}
	if able == 0 {
		does := "has no replica"
		if n := len(replicas); n > 0 {
			does = fmt.Sprintf("has no replica left, of %s", show.Count(int64(n)))
		}
		f.add("replica", Fault, s.Master+" "+does, "If it fails, nobody takes over: start one with REPLICAOF and the master's address.")
	}
}
