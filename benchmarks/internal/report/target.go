package report

// Target is something the library promises itself, and what was measured of it.
type Target struct {
	What  string  `json:"what"`
	Of    string  `json:"of,omitempty"`   // what the value is a ratio to; "" if it is none
	Unit  string  `json:"unit,omitempty"` // of a value that is no ratio
	Aim   string  `json:"aim"`            // "≥", "≤" or "0"
	Bound float64 `json:"bound"`
	Value float64 `json:"value"`
}

// AtLeast is met by a ratio to base of bound or more.
func AtLeast(what, base string, ratio, bound float64) Target {
	return Target{What: what, Of: base, Aim: "≥", Bound: bound, Value: ratio}
}

// AtMost is met by a ratio to base of bound or less.
func AtMost(what, base string, ratio, bound float64) Target {
	return Target{What: what, Of: base, Aim: "≤", Bound: bound, Value: ratio}
}

// UpTo is met by a value of bound or less.
func UpTo(what, unit string, value, bound float64) Target {
	return Target{What: what, Unit: unit, Aim: "≤", Bound: bound, Value: value}
}

// None is met by a value of 0, give or take what the process does in the background.
func None(what, unit string, value float64) Target {
	return Target{What: what, Unit: unit, Aim: "0", Value: value}
}

// isMetBy reports whether a measured value, maybe another machine's, meets the target.
func (t Target) isMetBy(value float64) bool {
	switch t.Aim {
	case "≥":
		return value >= t.Bound
	case "≤":
		return value <= t.Bound
	}
	return value < 0.005
}

// isOf reports whether both measure the same, whatever they promise.
func (t Target) isOf(other Target) bool {
	return t.What == other.What && t.Of == other.Of && t.Unit == other.Unit
}
