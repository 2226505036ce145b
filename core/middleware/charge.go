package middleware

import (
	"context"
	"errors"
	"maps"

	"github.com/tokenbucket-go/ratelimit/core"
)

// charge is what a request takes.
type charge struct {
	cost  int64      // requests
	all   bool       // as many requests as one request can take
	units core.Units // nil: requests alone
}

// charge returns what the request c takes. Errors are of the user's functions.
func (o *Options[C]) charge(c C) (take charge, err error) {
	take.cost = 1
	if o.Cost != nil {
		take.cost, err = o.Cost(c)
		take.all = errors.Is(err, core.ErrUnknownCost)
		if err != nil && !take.all {
			return take, functionError{"cost", err}
		}
	}
	if o.Units == nil {
		return take, nil
	}
	units, err := o.Units(c)
	if err != nil {
		return take, functionError{"units", err}
	}
	if units == nil {
		return take, nil
	}
	if _, given := units[core.Requests]; !given && o.Cost != nil {
		units = maps.Clone(units)
		if !take.all {
			units[core.Requests] = take.cost
		}
	} else {
		take.all = false
	}
	take.units = units
	return take, nil
}

// unitsOf is what the request takes from key of l, in units.
func (t *charge) unitsOf(l *core.Limiter, key string) core.Units {
	if !t.all {
		return t.units
	}
	units := maps.Clone(t.units)
	units[core.Requests] = l.Capacity(key)
	return units
}

// deciding is the context in which a request with the context ctx is decided. If ctx ended while a store decides, the store might
// take the tokens, and nobody would settle them. So a decision that is to be settled goes on: it takes no longer than the
// store's timeout.
func (o *Options[C]) deciding(ctx context.Context) context.Context {
	if o.Settle == nil || ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// nothing reports whether a request takes nothing: it is denied only in debt.
func (t *charge) nothing() bool { return t.cost == 0 && t.units == nil && !t.all }
