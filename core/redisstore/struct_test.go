package redisstore

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// compare runs the stand-in beside the server's struct library. It reads
// ARGV[2] as ARGV[1] says with both, and writes what they read. It returns what
// differs.
var compare = `
local theirs = struct
` + script.Struct + `
local ours, format, text = struct, ARGV[1], ARGV[2]
local a, b = { theirs.unpack(format, text, 1) }, { ours.unpack(format, text, 1) }
if #a ~= #b then
  return #a .. ' values, not ' .. #b
end
for i = 1, #a do
  local tag = format:sub(1, 3) == '>I4' and i == 1 and a[1] > 0
  if a[i] ~= (tag and b[i] + 2 ^ 32 or b[i]) and (a[i] == a[i] or b[i] == b[i]) then
    return string.format('value %d: %.17g, not %.17g', i, a[i], b[i])
  end
  if a[i] == 0 and 1 / a[i] ~= 1 / b[i] then
    return 'the sign of zero'
  end
end
for i = 1, #a do -- as a NaN, which has many forms, any other number will do
  a[i] = a[i] == a[i] and a[i] or 1
end
b[1] = b[1] == b[1] and b[1] or 1
if theirs.pack(format, unpack(a)) ~= ours.pack(format, unpack(a)) or
  theirs.pack(format, unpack(a)) ~= ours.pack(format, b[1], unpack(a, 2)) then
  return 'written otherwise'
end
return ''`

// doubles has the bits of any double, and of the least and the largest often.
var doubles = rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{
	0, 1, 1<<52 - 1, 1 << 52, math.Float64bits(math.MaxFloat64), math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)), math.Float64bits(math.NaN()), 1 << 63,
}))

func TestStandInReadsAndWritesAsStructDoes(t *testing.T) {
	client := redistest.Client(t)
	formats := constants(t)
	rapid.Check(t, func(rt *rapid.T) {
		format := formats[rapid.SampledFrom([]string{"RECORD", "DEFINITION", "CUT", "REQUEST", "PAIR", "NUMBER", "HOLDS", "HOLD", "PAGE", "FIELD", "ENDING"}).Draw(rt, "format")]
		require.NotEmpty(rt, format, "the premise: there is such a format")
		size := int(sizeOf(format))
		text := rapid.SliceOfN(rapid.Byte(), size, size).Draw(rt, "bytes")
		if strings.Trim(format, "d") == ">" { // numbers of every size, small ones too
			for i := 0; i < size; i += 8 {
				binary.BigEndian.PutUint64(text[i:], doubles.Draw(rt, "double"))
			}
		}
		difference, err := client.Eval(t.Context(), compare, nil, format, text).Text()
		require.NoError(rt, err)
		require.Empty(rt, difference, "format %s, bytes %x", format, text)
	})
}
