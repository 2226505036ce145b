package browser

import "cmp"

// Look is how a page is shown. The zero Look is a light window of 1280 by 900 pixels.
type Look struct {
	Width, Height int // of the page's viewport, in CSS pixels; below 600 it is a phone's
	Dark          bool
	ReducedMotion bool
	ForcedColors  bool // not in WebKit, which has none
	SlowNetwork   bool // a phone's: 150 ms a round trip and 200 kB a second, as Lighthouse has it
}

// Phone is a usual phone.
var Phone = Look{Width: 390, Height: 844}

func (l Look) size() (width, height int) { return cmp.Or(l.Width, 1280), cmp.Or(l.Height, 900) }

// media are the values of the media features that a Look sets.
func (l Look) media() (scheme, motion, forced string) {
	scheme, motion, forced = "light", "no-preference", "none"
	if l.Dark {
		scheme = "dark"
	}
	if l.ReducedMotion {
		motion = "reduce"
	}
	if l.ForcedColors {
		forced = "active"
	}
	return scheme, motion, forced
}
