package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replica"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// askAgain is how long compare waits before it asks replicas again that have
// not followed: they poll Redis each second.
const askAgain = 300 * time.Millisecond

// obedience is which replicas obey what is in Redis.
type obedience struct {
	output.Head

	Policies []obeyed        `json:"policies"`         // those that Redis or a replica has, by name
	Unread   []unreadReplica `json:"unread,omitempty"` // replicas that can't be read

	behind bool // some replica may follow soon
	failed bool // some replica does not obey
}

// obeyed is who obeys the exceptions of a policy.
type obeyed struct {
	Policy    string     `json:"policy"`    // its name
	Version   int64      `json:"version"`   // of its exceptions in Redis, in µs since 1970; 0: it never had any
	Overrides int        `json:"overrides"` // how many Redis has
	Blocks    int        `json:"blocks"`    // how many Redis has
	Replicas  []follower `json:"replicas"`  // that have the policy; of a policy that was named, all
}

// follower is what a replica obeys.
type follower struct {
	URL     string   `json:"url"`                        // without credentials
	Obeys   bool     `json:"obeys"`                      // it obeys what is in Redis
	Says    string   `json:"says"`                       // that in words
	Version int64    `json:"version"`                    // that it obeys, as in Redis
	Read    *float64 `json:"read_seconds_ago,omitempty"` // when it read Redis last; missing: never, or it does not say so

	Lacks []oncall.Exception `json:"lacks,omitempty"` // what is in force in Redis, and not there
	Has   []oncall.Exception `json:"has,omitempty"`   // what is in force there, and not in Redis
}

// unreadReplica is a replica that can't be read.
type unreadReplica struct {
	URL   string `json:"url"`   // without credentials
	Error string `json:"error"` // why it could not be read
}

// compare prints which replicas obey what is in Redis: of these policies, or
// all that Redis or a replica has.
func (f *inForceFlags) compare(ctx context.Context, s cli.Streams, d *desk, policies []string, all bool, replicas []*replica.Replica) error {
	var o *obedience
	for began := time.Now(); ; {
		var err error
		// Replicas come first: what one has that Redis lacks is then no change
		// made meanwhile.
		if o, err = d.obedience(ctx, policies, all, replica.Read(ctx, replicas)); err != nil {
			return d.Explain(err)
		}
		if !o.behind || time.Since(began) >= f.wait {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain):
		}
	}
	var err error
	if f.asJSON {
		err = output.Write(s.Out, o)
	} else {
		err = o.write(s.Out)
	}
	switch {
	case err != nil:
		return err
	case o.failed:
		return cli.ErrFound
	case len(o.Unread) > 0:
		return fmt.Errorf("%d of %s can't be read", len(o.Unread), show.Some(int64(len(replicas)), "replica"))
	}
	return nil
}

func (d *desk) obedience(ctx context.Context, policies []string, all bool, answers []replica.Answer) (*obedience, error) {
	if ctx.Err() != nil { // it is not the replicas that don't answer
		return nil, ctx.Err()
	}
	o := &obedience{Policies: []obeyed{}}
	for _, a := range answers {
		if a.Error != "" {
			o.Unread = append(o.Unread, unreadReplica{a.URL, a.Error})
		}
		for _, p := range a.Policies {
			if all && !slices.Contains(policies, p.Name) {
				policies = append(policies, p.Name)
			}
		}
	}
	for _, name := range slices.Sorted(slices.Values(policies)) {
		kept, bad, err := d.kept(ctx, name)
		if err != nil {
			return nil, err
		} else if bad != nil {
			_, _ = fmt.Fprintf(d.errs, "warning: %v\n", bad)
		}
		of := obeyed{Policy: name, Version: kept.Version, Overrides: kept.Overrides, Blocks: kept.Blocks, Replicas: []follower{}}
		for _, a := range answers {
			i := slices.IndexFunc(a.Policies, func(p replica.Policy) bool { return p.Name == name })
			switch {
			case a.Error != "" || i < 0 && all:
				continue
			case i < 0:
				of.Replicas = append(of.Replicas, follower{URL: a.URL, Says: "has no policy " + show.Text(name)})
			default:
				one, behind := followerOf(a.URL, kept, a.Policies[i].Exceptions)
				o.behind = o.behind || behind
				shownExceptions(one.Lacks, d.keys)
				shownExceptions(one.Has, d.keys)
				of.Replicas = append(of.Replicas, one)
			}
			o.failed = o.failed || !of.Replicas[len(of.Replicas)-1].Obeys
		}
		o.Policies = append(o.Policies, of)
	}
	return o, nil
}

// followerOf compares what Redis has with what a replica obeys. behind: the
// replica may follow soon.
func followerOf(where string, kept, obeys *oncall.Exceptions) (f follower, behind bool) {
	f.URL = where
	if obeys == nil {
		f.Says = "does not say what it obeys: its adminlimit is of an earlier version"
		return f, false
	}
	f.Version, f.Read = obeys.Version, obeys.Read
	same := obeys.Overrides == kept.Overrides && obeys.Blocks == kept.Blocks
	if !obeys.Hashed && !kept.Hashed {
		f.Lacks, f.Has = missing(kept.List, obeys.List), missing(obeys.List, kept.List)
		same = f.Lacks == nil && f.Has == nil
	}
	switch {
	case !obeys.Followed:
		f.Obeys, f.Says = kept.Version == 0 && len(obeys.List) == 0, obeys.Reading() // there may be nothing to follow
	case obeys.Version < kept.Version:
		f.Says, behind = "has not followed yet: it obeys "+obeys.Since()+", "+obeys.Reading(), true
	case obeys.Version > kept.Version:
		f.Says, behind = "obeys "+obeys.Since()+", which Redis has lost: it is not put back", true // by a poll
	case !same:
		f.Says = "obeys this version, but not all of it: " + obeys.Reading()
	case obeys.Stale():
		f.Says = "obeys this version, and learns of no other: " + obeys.Reading()
	default:
		f.Obeys, f.Says = true, "obeys, "+obeys.Reading()
	}
	return f, behind
}

// soon is how many seconds before its end an exception may have ended
// elsewhere.
const soon = 5

// missing are the exceptions of a list that another one lacks.
func missing(list, other []oncall.Exception) (missing []oncall.Exception) {
	for _, e := range list {
		if e.EndsIn > 0 && e.EndsIn < soon || slices.ContainsFunc(other, e.Same) {
			continue
		}
		missing = append(missing, e)
	}
	return missing
}

func (o *obedience) write(w io.Writer) error {
	var text strings.Builder
	b := show.Like(w, &text)
	for _, p := range o.Policies {
		kept := oncall.Exceptions{Version: p.Version, Overrides: p.Overrides, Blocks: p.Blocks}
		_ = show.About(b, show.Text(p.Policy), kept.Counts()+" in Redis, "+kept.Since())
		if len(p.Replicas) == 0 {
			_, _ = fmt.Fprintln(b, "  no replica has this policy")
		}
		for _, f := range p.Replicas {
			_ = show.Paragraph(b, 4, "  "+f.URL+": "+f.Says)
			if len(f.Lacks) > 0 {
				_ = show.Paragraph(b, 6, "    it lacks "+some(f.Lacks))
			}
			if len(f.Has) > 0 {
				_ = show.Paragraph(b, 6, "    it has "+some(f.Has))
			}
		}
	}
	for _, u := range o.Unread {
		_ = show.Paragraph(b, 2, "not read: "+u.URL+": "+u.Error)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// some names the first exceptions of a list.
func some(list []oncall.Exception) string {
	const most = 3
	var texts []string
	for _, e := range list[:min(len(list), most)] {
		texts = append(texts, "the "+e.Kind()+" of "+e.Key)
	}
	text := strings.Join(texts, ", ")
	if more := len(list) - most; more > 0 {
		text += " and " + show.Count(int64(more)) + " more"
	}
	return text
}
