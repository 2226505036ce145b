package pictures

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// loop is how long an animated picture takes before it begins again. The
// picture stands still at the instant still for readers who want no motion.
const (
	loop  = 6 * time.Second
	still = 2080 * time.Millisecond
)

// frame is what an element looks like at an instant. On the way to the next
// frame it changes evenly.
type frame struct {
	at   time.Duration
	pose pose
}

// pose is how an element differs from what was drawn: it is moved, seen in
// part, or a ring of which a part is missing.
type pose struct {
	x, y             float64
	opacity, missing float64 // 0 to 1
}

// hidden and seen are poses at the element's own place.
var hidden, seen = pose{}, pose{opacity: 1}

// moving draws an element, in a group of that id, and gives it frames in the
// order of time. At an instant with two frames it jumps from the first to the
// second.
func (c *canvas) moving(id string, frames []frame, draw func()) {
	fmt.Fprintf(&c.body, "<g id=%q>\n", id)
	draw()
	c.body.WriteString("</g>\n")

	rest, before := frames[0].pose, 0.0
	moved, ring := false, false
	for _, f := range frames {
		moved = moved || f.pose.x != 0 || f.pose.y != 0
		ring = ring || f.pose.missing != 0
	}
	rules := fmt.Sprintf("0%%{%s}", rest.css(moved, ring))
	for i, f := range frames {
		switch {
		case f.at <= still:
			rest = f.pose
		case i > 0 && frames[i-1].at <= still:
			rest = midway(frames[i-1], f, still)
		}
		percent := min(max(100*f.at.Seconds()/loop.Seconds(), before+0.01), 100) // a rule for each
		if i+1 == len(frames) && percent < 100 {
			rules += fmt.Sprintf("%s%%,", hundredths(percent))
			percent = 100
		} else if i > 0 && i+1 < len(frames) && f.pose == frames[i-1].pose && f.pose == frames[i+1].pose {
			continue // nothing changes here
		}
		rules += fmt.Sprintf("%s%%{%s}", hundredths(percent), f.pose.css(moved, ring))
		if before = percent; percent == 100 {
			break
		}
	}
	fmt.Fprintf(&c.motion, "@keyframes %s{%s}#%s{%s;animation-name:%s}\n", id, rules, id, rest.css(moved, ring), id)
}

// midway is what an element looks like on the way from a frame to the next, at
// an instant.
func midway(a, b frame, at time.Duration) pose {
	mix := func(from, to float64) float64 { return from + (to-from)*float64(at-a.at)/float64(b.at-a.at) }
	return pose{mix(a.pose.x, b.pose.x), mix(a.pose.y, b.pose.y), mix(a.pose.opacity, b.pose.opacity), mix(a.pose.missing, b.pose.missing)}
}

// during are frames of an element that is seen while shown says so, of spans
// one after the other.
func during(spans []span, shown func(span) bool) (frames []frame) {
	for i, s := range spans {
		now := hidden
		if shown(s) {
			now = seen
		}
		if i > 0 && frames[len(frames)-1].pose != now {
			frames = append(frames, frame{s.from, frames[len(frames)-1].pose})
		}
		frames = append(frames, frame{s.from, now})
	}
	return slices.Compact(frames)
}

// css has all that any frame of the element has: what one lacks would come from
// its neighbours.
func (p pose) css(moved, ring bool) string {
	text := "opacity:" + hundredths(p.opacity)
	if moved {
		text += fmt.Sprintf(";transform:translate(%spx,%spx)", number(p.x), number(p.y))
	}
	if ring {
		text += ";stroke-dashoffset:" + hundredths(p.missing)
	}
	return text
}

// motionRules are the style sheet's rules of what moves, or none.
func (c *canvas) motionRules() string {
	if c.motion.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("g{animation:%vs ease-in-out infinite}[id^=ring]{animation-timing-function:linear}", loop.Seconds()) + c.motion.String() + "@media(prefers-reduced-motion:reduce){g{animation:none!important}}"
}

// hundredths is v with at most two decimals.
func hundredths(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}
