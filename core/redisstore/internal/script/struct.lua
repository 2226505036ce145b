-- A replacement of Lua's struct library: the functions and formats that the
-- script uses. It is sent in front of the script to servers whose Lua lacks the
-- library, such as miniredis. Formats are big-endian: '>', then for each value
-- I and its number of bytes, B for I1, d or f for a number, or c0 for a text.
--
-- I4, a limit's tag, is read as the number less 2^32, which is below 0. The
-- script uses tags as keys of tables, and miniredis' Lua makes a table with the
-- key 60,000,000 as long as that.
--
-- Older miniredis, such as v2.30, returns nil from redis.pcall after an error.
-- The only error that the script's commands have there is a key of another
-- type. Lua's own pcall would have the text, but in miniredis' Lua it detaches
-- the script's locals.
local redis = {
  call = redis.call,
  pcall = function(...)
    local reply = redis.pcall(...)
    return reply == nil and { err = 'WRONGTYPE Operation against a key holding the wrong kind of value' } or reply
  end,
}
local struct = {}
do
  -- The lowest bytes of a whole number
  local function bytes(n, size)
    local text = ''
    for _ = 1, size do
      text = string.char(n % 256) .. text
      n = math.floor(n / 256)
    end
    return text
  end

  local function whole(text, from, size)
    local n = 0
    for i = from, from + size - 1 do
      n = n * 256 + text:byte(i)
    end
    return n
  end

  -- IEEE 754: a sign, the exponent and its bias, and the digits behind the
  -- binary point. Their number of bits is in `digits`, and `bias` is that of
  -- the format.
  local function float(x, size, digits, bias)
    local sign, exponent, rest = 0, 0, 0
    if x < 0 or x == 0 and 1 / x < 0 then
      sign, x = 1, -x
    end
    if x ~= x then
      exponent, rest = 2 * bias + 1, 2 ^ (digits - 1)
    elseif x > 0 then
      local fraction, power = math.frexp(x) -- x = fraction * 2^power, 1/2 <= fraction < 1
      exponent = power - 1 + bias
      if x == math.huge then
        exponent = 2 * bias + 1
      elseif exponent < 1 then -- too small for a leading 1
        rest, exponent = math.ldexp(fraction, digits + exponent), 0
      else
        rest = math.ldexp(2 * fraction - 1, digits)
      end
      local part = rest % 1
      rest = rest - part
      if part > 0.5 or part == 0.5 and rest % 2 == 1 then -- to the nearest, of two to the even one
        rest = rest + 1
        if rest == 2 ^ digits then
          exponent, rest = exponent + 1, 0
        end
      end
      if exponent > 2 * bias then -- infinite
        exponent, rest = 2 * bias + 1, 0
      end
    end
    -- The first 16 bits hold the sign, the exponent and the first digits.
    local low = 2 ^ (8 * size - 16)
    local first = rest - rest % low
    return bytes((sign * (2 * bias + 2) + exponent) * 2 ^ (digits - 8 * size + 16) + first / low, 2) .. bytes(rest - first, size - 2)
  end

  local function number(text, from, size, digits, bias)
    local low = 2 ^ (8 * size - 16)
    local first = whole(text, from, 2)
    local ahead = 2 ^ (digits - 8 * size + 16) -- of the digits in the first 16 bits
    local rest = first % ahead * low + whole(text, from + 2, size - 2)
    local exponent = math.floor(first / ahead)
    local sign = 1
    if exponent > 2 * bias + 1 then
      sign, exponent = -1, exponent - 2 * bias - 2
    end
    if exponent == 2 * bias + 1 then
      return rest == 0 and sign * math.huge or 0 / 0
    elseif exponent == 0 then
      return sign * math.ldexp(rest, 1 - bias - digits)
    end
    return sign * math.ldexp(rest + 2 ^ digits, exponent - bias - digits)
  end

  function struct.pack(format, ...)
    local text, i = '', 0
    for kind, size in format:gmatch('(%a)(%d*)') do
      i = i + 1
      local value = select(i, ...)
      if kind == 'd' then
        text = text .. float(value, 8, 52, 1023)
      elseif kind == 'f' then
        text = text .. float(value, 4, 23, 127)
      elseif kind == 'c' then
        text = text .. value
      else
        text = text .. bytes(value, kind == 'B' and 1 or tonumber(size))
      end
    end
    return text
  end

  function struct.unpack(format, text, from)
    local values, n = {}, 0
    for kind, size in format:gmatch('(%a)(%d*)') do
      n = n + 1
      if kind == 'd' then
        size, values[n] = 8, number(text, from, 8, 52, 1023)
      elseif kind == 'f' then
        size, values[n] = 4, number(text, from, 4, 23, 127)
      else
        size = kind == 'B' and 1 or tonumber(size)
        values[n] = whole(text, from, size)
        if size == 4 and values[n] > 0 then
          values[n] = values[n] - 2 ^ 32
        end
      end
      from = from + size
    end
    values[n + 1] = from
    return unpack(values, 1, n + 1)
  end
end
