package core

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// limits reads a list of limits.
func (r *reader) limits(v any, path string) (limits []Limit) {
	list, ok := v.([]any)
	if !ok {
		r.wrong(path, v, "must be a list of limits, such as [10/s, 1000/day]")
	}
	if ok && len(list) == 0 {
		r.wrong(path, unquoted("[]"), "is an empty list: at least one is required")
	}
	for i, v := range list {
		if r.full() {
			break
		}
		limits = append(limits, r.limit(v, path+"["+strconv.Itoa(i)+"]"))
	}
	return limits
}

// limit reads a limit that is a string or an object.
func (r *reader) limit(v any, path string) (l Limit) {
	switch v := v.(type) {
	case string:
		return r.text(v, "", path)
	case map[string]any:
		if text, n := textWithColon(v); text != "" {
			r.wrong(path, text+": "+n, "is a limit with a colon in it, so it is a mapping: write "+text+" "+n)
			return l
		}
		if unit, n := numberOfUnit(v); unit != "" {
			if text := limit.MeantSlots(printable.Clip(n, 20)+" "+printable.Clip(unit, limit.MaxName), ""); text != "" {
				r.wrong(path, json.Number(n), "is a number under "+printable.Clip(unit, limit.MaxName)+": write "+text)
				return l
			}
			r.wrong(path, json.Number(n), "needs an interval: write "+printable.Clip(unit, limit.MaxName)+": "+printable.Clip(n, 20)+"/min, or another")
			return l
		}
		if unit, text, ok := ofUnit(v); ok {
			return r.text(text, unit, path)
		}
	default:
		r.wrong(path, v, "must be a string such as 100/min burst 20, or a mapping")
		return l
	}
	o := r.object(v, path, "a limit", fieldsOfLimit, r.required(v.(map[string]any), path)...)
	l = Limit{
		Name:           readJSON(r, o, path, "name", limitNameJSON),
		Unit:           limit.PlainUnit(readJSON(r, o, path, "unit", limitNameJSON)),
		Capacity:       readJSON(r, o, path, "capacity", tokensJSON),
		RefillRate:     readJSON(r, o, path, "refill_rate", rateJSON),
		RefillInterval: readJSON(r, o, path, "refill_interval", intervalJSON),
		Mode:           Mode(readJSON(r, o, path, "mode", wordJSON(bucket.Modes.Texts()))),
		Location:       readJSON(r, o, path, "location", locationJSON),
		MaxHold:        readJSON(r, o, path, "max_hold", holdJSON),
		Times:          readJSON(r, o, path, "times", rateJSON),
	}
	l.Anchor = readJSON(r, o, path, "anchor", func(v any) (time.Time, string) { return anchorJSON(v, l.plain().Days()) })
	if _, given := o["mode"]; !given && l.plain().OnCalendar() {
		l.Mode = Aligned
	}
	if _, given := o["capacity"]; !given && l.Mode != Concurrent && l.Times == 0 {
		l.Capacity = quantity.ImpliedCapacity(l.RefillRate)
	}
	return l
}

// required returns the fields that a limit must have which is this object.
func (r *reader) required(v map[string]any, path string) []string {
	fields := []string{"refill_rate", "refill_interval"}
	if _, factor := v["times"]; factor {
		return nil
	}
	mode, given := v["mode"]
	if !given {
		return fields
	}
	switch mode, reason := wordJSON(bucket.Modes.Texts())(mode); {
	case reason != "": // it is not known what is required
		for _, name := range fields {
			if _, given := v[name]; !given {
				r.wrongs[path+"."+goName(name)] = true
			}
		}
		return nil
	case mode == int(Concurrent):
		return []string{"capacity"}
	}
	return fields
}

// text reads a limit that is a string, of a unit that stands in front of it, or "".
func (r *reader) text(v, unit, path string) Limit {
	l, mistakes := limit.ParseUnit(v, unit)
	form := ": a limit is " + quantity.LimitForm
	for _, m := range mistakes {
		if m.Field = strings.TrimSuffix(path+"."+m.Field, "."); m.Field == path {
			m.Reason, form = m.Reason+form, "" // once is enough
		}
		r.wrong(m.Field, m.Value, m.Reason)
		r.wrongs[path] = true
	}
	return Limit(l)
}

// ofUnit reports whether v is a limit's text under the name of its unit.
func ofUnit(v map[string]any) (unit, text string, ok bool) {
	for unit, value := range v {
		text, ok = value.(string)
		return unit, text, ok && len(v) == 1 && !slices.Contains(fieldsOfLimit, unit)
	}
	return "", "", false
}

// textWithColon returns what v is if it is a limit's text in which a colon makes a mapping, such as 60/min burst: 20 or
// 5 at once hold: 2m; else "".
func textWithColon(v map[string]any) (text, after string) {
	for text, value := range v {
		if len(v) != 1 || !strings.Contains(text, "/") && !strings.Contains(quantity.Lower(text), "at once") {
			return "", ""
		}
		switch value := value.(type) {
		case string:
			return printable.Clip(text, limit.MaxName), printable.Clip(value, 20)
		case json.Number:
			return printable.Clip(text, limit.MaxName), printable.Clip(value.String(), 20)
		}
	}
	return "", ""
}

// numberOfUnit returns what v is if it is a number under the name of a unit, in which an interval was forgotten; else "".
func numberOfUnit(v map[string]any) (unit, n string) {
	for unit, value := range v {
		if n, ok := value.(json.Number); ok && len(v) == 1 && !slices.Contains(fieldsOfLimit, unit) {
			return unit, n.String()
		}
	}
	return "", ""
}
