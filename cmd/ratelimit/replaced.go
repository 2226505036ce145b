package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// replaced returns the limits of a key, those of texts in place of the ones that they replace. changes say in words what is new.
func replaced(ctx context.Context, limiter *core.Limiter, key string, texts []string) (limits []core.Limit, changes []string, err error) {
	res, err := limiter.Peek(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range res.Limits() {
		limits = append(limits, r.Limit)
	}
	done := make([]bool, len(limits))
	for _, text := range texts {
		l, err := core.ParseLimit(text)
		if err != nil {
			return nil, nil, cli.Misuse("%v", err)
		}
		i, err := counterpart(l, limits)
		switch {
		case err != nil:
			return nil, nil, err
		case done[i]:
			return nil, nil, cli.Misuse("two limits replace %s: give each once", limits[i].Name)
		}
		was := limits[i]
		if l.Name = was.Name; l.MaxHold == 0 {
			l.MaxHold = was.MaxHold
		}
		limits[i], done[i] = l, true
		changes = append(changes, fmt.Sprintf("%s: %s, was %s", l.Name, unnamed(l), unnamed(was)))
	}
	return limits, changes, nil
}

// unnamed is a limit's text without its name.
func unnamed(l core.Limit) string {
	l.Name = ""
	return l.String()
}

// counterpart returns which of limits one replaces: that of its name; or without a name the only one that counts the same, or the only
// one of these with the same interval.
func counterpart(l core.Limit, limits []core.Limit) (int, error) {
	names := make([]string, 0, len(limits))
	var alike, same []int
	for i, other := range limits {
		names = append(names, other.Name)
		if cmp.Or(other.Unit, core.Requests) != cmp.Or(l.Unit, core.Requests) || (other.Mode == core.Concurrent) != (l.Mode == core.Concurrent) {
			if other.Name == l.Name {
				return 0, cli.Misuse("limit %s counts something else: it is %s", l.Name, unnamed(other))
			}
			continue
		}
		if l.Name != "" && l.Name != other.Name {
			continue
		}
		if alike = append(alike, i); other.RefillInterval == l.RefillInterval {
			same = append(same, i)
		}
	}
	if len(alike) != 1 && l.Name == "" {
		alike = same
	}
	switch {
	case len(alike) == 1:
		return alike[0], nil
	case l.Name == "":
		return 0, cli.Misuse("which limit does %s replace? Name it, such as '%s name %s' (there are %s)", l, l, names[0], strings.Join(names, ", "))
	}
	hint := " (it has " + strings.Join(names, ", ") + ")"
	if nearest := cli.Nearest(l.Name, names); nearest != "" {
		hint = ": did you mean " + nearest + "?"
	}
	return 0, cli.Misuse("the client has no limit %s%s", show.Text(l.Name), hint)
}
