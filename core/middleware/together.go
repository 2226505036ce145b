package middleware

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// prepareTogether sets the charges of q. A rule in shadow mode whose key is
// missing is left out: it must not refuse the request. It logs that.
func (e *Engine[C]) prepareTogether(c C, x Request, q *question) error {
	var missing error
	for _, r := range e.rules {
		key, err := call(r.Key, c)
		switch {
		case err == nil:
			q.charges = append(q.charges, core.Charge{Limiter: r.Limiter, Key: key})
		case !r.Limiter.Policy().Shadow:
			return err
		default:
			missing = err
		}
	}
	take, err := e.options.charge(c)
	switch {
	case err != nil:
		return err
	case missing == nil:
	case len(q.charges) == 0:
		return missing
	default:
		e.warn(slog.LevelWarn, c, x, CauseOf(x.Context(), missing), missing, shadowMessage, "RL708")
		take.units, take.floor = countedBy(q.charges, take.units), countedBy(q.charges, take.floor)
	}
	take.spread(q.charges)
	return nil
}

// countedBy returns the units that a limiter of charges counts.
func countedBy(charges []core.Charge, units core.Units) core.Units {
	units = maps.Clone(units)
	maps.DeleteFunc(units, func(unit string, _ int64) bool {
		return !slices.ContainsFunc(charges, func(c core.Charge) bool { return counts(c.Limiter, unit) })
	})
	return units
}

// spread sets what each of charges takes of what the request takes.
func (t *charge) spread(charges []core.Charge) {
	units := t.units
	if units == nil {
		units = t.unitsFor(t.cost)
	}
	for i := range charges {
		c := &charges[i]
		c.Floor = t.floor
		if c.Units = units; !t.all {
			continue
		}
		again := slices.ContainsFunc(charges[:i], func(o core.Charge) bool { return o.Limiter == c.Limiter && o.Key == c.Key })
		if c.Units = t.unitsFor(0); !again { // a bucket is charged that once
			c.Units[core.Requests] = t.whole(c.Limiter.Limits(c.Key))
		}
	}
}
