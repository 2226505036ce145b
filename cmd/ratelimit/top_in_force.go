package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replica"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// inForce is what replicas obey of the exceptions of a policy.
type inForce struct {
	Policy string     `json:"policy"` // its name
	List   []obeyedAt `json:"list"`   // what some replica obeys

	// Differ has the replicas by what they obey, in words, unless all obey the
	// same.
	Differ map[string][]string `json:"differ,omitempty"`
}

// obeyedAt is an exception that replicas obey.
type obeyedAt struct {
	oncall.Exception

	NotAt []string `json:"not_at,omitempty"` // replicas that don't obey it
}

// inForceAt returns what replicas obey, by policy, where there is something to
// obey. It makes their keys as they may be shown.
func inForceAt(answers []replica.Answer, keys show.Keys) []inForce {
	list := []inForce{}
	names := make(map[string]bool)
	for _, a := range answers {
		for _, p := range a.Policies {
			names[p.Name] = true
			if x := p.Exceptions; x != nil && !x.Hashed {
				shownExceptions(x.List, keys)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := inForce{Policy: name, List: []obeyedAt{}, Differ: make(map[string][]string)}
		some := false // whether there is something to obey
		at := make(map[string][]oncall.Exception)
		for _, a := range answers {
			i := slices.IndexFunc(a.Policies, func(p replica.Policy) bool { return p.Name == name })
			if i < 0 || a.Policies[i].Exceptions == nil {
				continue
			}
			x := a.Policies[i].Exceptions
			at[a.URL] = x.List
			some = some || x.Version > 0 || len(x.List) > 0
			says := "not followed"
			if x.Followed || len(x.List) > 0 {
				if says = x.Since() + ", " + x.Counts(); x.Stale() {
					says += ", " + x.Reading()
				}
			}
			p.Differ[says] = append(p.Differ[says], a.URL)
		}
		for _, a := range answers {
			for _, e := range at[a.URL] {
				if !slices.ContainsFunc(p.List, func(o obeyedAt) bool { return o.Same(e) }) {
					p.List = append(p.List, obeyedAt{e, notAt(answers, at, e)})
				}
			}
		}
		if len(p.Differ) == 1 || !some {
			p.Differ = nil
		}
		if len(p.List)+len(p.Differ) > 0 {
			list = append(list, p)
		}
	}
	return list
}

// shownExceptions makes the keys of a replica's exceptions as they may be
// shown.
func shownExceptions(list []oncall.Exception, keys show.Keys) {
	for i := range list {
		key := asGiven(list[i].Key)
		list[i].Key, list[i].Bytes = keys.Text(key), keys.Bytes(key)
	}
}

// notAt are the replicas that don't obey an exception, of those that say what
// they obey.
func notAt(answers []replica.Answer, at map[string][]oncall.Exception, e oncall.Exception) (urls []string) {
	for _, a := range answers {
		if list, ok := at[a.URL]; ok && !slices.ContainsFunc(list, e.Same) {
			urls = append(urls, a.URL)
		}
	}
	return urls
}

// write writes p as text, with so many exceptions at most.
func (p *inForce) write(w io.Writer, most int) error {
	if len(p.List) > 0 {
		_ = show.About(w, show.Text(p.Policy), show.Some(int64(len(p.List)), "exception")+" in force")
	}
	var t show.Table
	for _, e := range p.List[:min(len(p.List), most)] {
		not := ""
		if len(e.NotAt) > 0 {
			not = "; not at " + strings.Join(e.NotAt, ", ")
		}
		t.Row("  "+oncall.ShownKey(asGiven(e.Key)), show.Text(e.Does()), e.EndsBy()+not)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if more := len(p.List) - most; more > 0 {
		_, _ = fmt.Fprintf(w, "  … and %s more (-n shows them)\n", show.Count(int64(more)))
	}
	if len(p.Differ) > 0 {
		_ = show.Paragraph(w, 2, show.Text(p.Policy)+" has not the same exceptions in all replicas:")
		for _, says := range slices.Sorted(maps.Keys(p.Differ)) {
			_ = show.Paragraph(w, 4, "  "+says+": at "+strings.Join(p.Differ[says], ", "))
		}
	}
	return nil
}
