package bucketform_test

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/bucketform"
)

var form = bucketform.Of(100, 300, 20, 60)

// numbers are those of a path, in order.
func numbers(t *testing.T, path string) (list []float64) {
	t.Helper()
	for _, text := range regexp.MustCompile(`-?\d+(\.\d+)?`).FindAllString(path, -1) {
		v, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		list = append(list, v)
	}
	return list
}

// Water stands as high as the share says, and as wide as the bucket is there:
// in the corners at the floor that is less.
func TestWaterFillsItsShareOfTheBucket(t *testing.T) {
	assert.Empty(t, form.Water(0))
	assert.Empty(t, form.Water(-1), "a debt")
	assert.Equal(t, form.Water(1), form.Water(1.5), "what comes back of a higher capacity")
	r := form.Half * bucketform.Corner
	for percent := 1.0; percent <= 100; percent++ {
		at := numbers(t, form.Water(percent/100))
		left, top, right := at[0], at[1], at[7]
		high := (form.Floor - form.Rim) * percent / 100
		assert.InDelta(t, form.Floor-high, top, 0.01, "%v %%", percent)
		half := form.Half
		if high < r { // of the corner's curve, whose point at s is s² beside the wall and (1-s)² above the floor
			half -= r * math.Pow(1-math.Sqrt(high/r), 2)
		}
		assert.InDelta(t, form.X-half, left, 0.01, "%v %%", percent)
		assert.InDelta(t, form.X+half, right, 0.01, "%v %%", percent)
	}
}

// Discs stand in the bucket, apart from each other.
func TestTokensStandInTheBucket(t *testing.T) {
	for capacity := 1; capacity <= bucketform.Countable; capacity++ {
		f := bucketform.Of(100, 300, 20, capacity)
		r := f.Pitch * bucketform.Disc
		for i := range capacity {
			x, y := f.Token(i)
			assert.True(t, x-r > f.X-f.Half && x+r < f.X+f.Half && y-r > f.Rim && y+r < f.Floor, "token %d of %d", i, capacity)
			for j := range i {
				x2, y2 := f.Token(j)
				assert.Greater(t, math.Hypot(x-x2, y-y2), 2*r, "tokens %d and %d", i, j)
			}
		}
	}
}
