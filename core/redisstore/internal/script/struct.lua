-- A replacement of Lua's struct library: the functions and formats that the
-- script uses. It is sent in front of the script to servers whose Lua lacks the
-- library, such as miniredis. Formats are big-endian: '>', then for each value
-- I and its number of bytes, B for I1, d for a number, or c0 for a text.
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

  -- IEEE 754: a sign, an exponent with a bias of 1023, and 52 digits behind the
  -- binary point. The first 16 bits hold the sign, the exponent and 4 digits.
  local function float(x)
    local sign, exponent, rest = 0, 0, 0
    if x < 0 or x == 0 and 1 / x < 0 then
      sign, x = 1, -x
    end
    if x ~= x then
      exponent, rest = 2047, 2 ^ 51
    elseif x == math.huge then
      exponent = 2047
    elseif x > 0 then
      local fraction, power = math.frexp(x) -- x = fraction * 2^power, 1/2 <= fraction < 1
      exponent = power + 1022
      if exponent < 1 then -- too small for a leading 1
        rest, exponent = math.ldexp(fraction, exponent + 52), 0
      else
        rest = math.ldexp(2 * fraction - 1, 52)
      end
    end
    local low = rest % 2 ^ 48
    return bytes((sign * 2048 + exponent) * 16 + (rest - low) / 2 ^ 48, 2) .. bytes(low, 6)
  end

  local function number(text, from)
    local first = whole(text, from, 2)
    local rest = first % 16 * 2 ^ 48 + whole(text, from + 2, 6)
    local exponent, sign = math.floor(first / 16), 1
    if exponent > 2047 then
      sign, exponent = -1, exponent - 2048
    end
    if exponent == 2047 then
      return rest == 0 and sign * math.huge or 0 / 0
    elseif exponent == 0 then
      return sign * math.ldexp(rest, -1074)
    end
    return sign * math.ldexp(rest + 2 ^ 52, exponent - 1075)
  end

  function struct.pack(format, ...)
    local text, i = '', 0
    for kind, size in format:gmatch('(%a)(%d*)') do
      i = i + 1
      local value = select(i, ...)
      if kind == 'd' then
        text = text .. float(value)
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
        size, values[n] = 8, number(text, from)
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
