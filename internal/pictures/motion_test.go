package pictures

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// track is what an element of a moving picture is at the instants of its rules,
// as shares of the loop in percent.
type track []struct{ percent, opacity, x, y float64 }

// tracks are those of a picture's elements, by their ids, and what they are
// without motion.
func tracks(t *testing.T, svg string) (moving map[string]track, rest map[string]track) {
	t.Helper()
	moving, rest = make(map[string]track), make(map[string]track)
	rule := regexp.MustCompile(`([\d.,%]*){opacity:([\d.]+)(?:;transform:translate\((-?[\d.]+)px,(-?[\d.]+)px\))?`)
	read := func(text string) (got track) {
		for _, found := range rule.FindAllStringSubmatch(text, -1) {
			for percent := range strings.SplitSeq(found[1], ",") {
				values := [4]float64{}
				for i, s := range append([]string{strings.TrimSuffix(percent, "%")}, found[2:]...) {
					values[i], _ = strconv.ParseFloat(s, 64) // none is 0
				}
				got = append(got, struct{ percent, opacity, x, y float64 }{values[0], values[1], values[2], values[3]})
			}
		}
		return got
	}
	for _, found := range regexp.MustCompile(`@keyframes (\w+){(.*)}#\w+({.*})`).FindAllStringSubmatch(svg, -1) {
		moving[found[1]], rest[found[1]] = read(found[2]), read(found[3])
		require.Contains(t, svg, `id="`+found[1]+`"`, "what moves is drawn")
	}
	return moving, rest
}

// at is what the element is after such a share of the loop.
func (tr track) at(percent float64) (opacity, x, y float64) {
	for i, a := range slices.Backward(tr) {
		if a.percent <= percent {
			if i+1 == len(tr) {
				return a.opacity, a.x, a.y
			}
			b := tr[i+1]
			share := (percent - a.percent) / (b.percent - a.percent)
			return a.opacity + share*(b.opacity-a.opacity), a.x + share*(b.x-a.x), a.y + share*(b.y-a.y)
		}
	}
	return 0, 0, 0
}

// At each instant the burst's number is that of the discs in the bucket, and
// the rim is closed when it is 0. So it is for readers who want no motion.
func TestNumberDiscsAndRimOfTheBurstAgree(t *testing.T) {
	moving, rest := tracks(t, string(draw(t, drawBurst)))
	agree := func(tracks map[string]track, percent float64, when any) {
		t.Helper()
		discs, number, numbers := 0, -1, 0
		for k := range 11 {
			if opacity, x, y := tracks["disc"+strconv.Itoa(k)].at(percent); opacity == 1 && x == 0 && y == 0 {
				discs++
			}
			if opacity, _, _ := tracks["left"+strconv.Itoa(k)].at(percent); opacity == 1 {
				number = k
				numbers++
			}
		}
		closed, _, _ := tracks["closed"].at(percent)
		require.Equal(t, 1, numbers, "%v: one number is seen", when)
		require.Equal(t, number, discs, "%v: the discs are as many as the number says", when)
		require.Equal(t, number == 0, closed == 1, "%v: the rim is closed if no token is left", when)
	}
	for at := 5 * time.Millisecond; at < loop; at += 10 * time.Millisecond { // decisions are between
		agree(moving, 100*at.Seconds()/loop.Seconds()+0.05, at)
	}
	agree(rest, 0, "at rest")
}

// Rules are in the order of time, from the begin to the end of the loop:
// browsers sort them, and one instant has one rule.
func TestFramesAreInOrder(t *testing.T) {
	moving, _ := tracks(t, string(draw(t, drawBurst)))
	require.Greater(t, len(moving), 40)
	for id, tr := range moving {
		require.Zero(t, tr[0].percent, id)
		require.Equal(t, 100.0, tr[len(tr)-1].percent, id)
		for i := range tr[1:] {
			require.Greater(t, tr[i+1].percent, tr[i].percent, "%s: two rules for one instant", id)
		}
	}
}
