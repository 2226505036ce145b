-- For servers whose Lua has no struct, such as miniredis: what the scripts use
-- of it. Formats are big-endian: B, I and i (signed) with their number of
-- bytes, and c, a text of so many. Older versions of miniredis return nil from
-- redis.pcall after an error.
local redis = {
  call = redis.call,
  pcall = function(...)
    local reply = redis.pcall(...)
    return reply == nil and { err = 'WRONGTYPE' } or reply
  end,
}
local struct = {}
function struct.unpack(format, text, from)
  local values = {}
  from = from or 1
  for kind, size in format:gmatch('([BIic])(%d*)') do
    local bytes = text:sub(from, from + (tonumber(size) or 1) - 1)
    local value = kind == 'c' and bytes or kind == 'i' and bytes:byte() > 127 and -1 or 0
    if kind ~= 'c' then
      for k = 1, #bytes do value = value * 256 + bytes:byte(k) end
    end
    values[#values + 1], from = value, from + #bytes
  end
  values[#values + 1] = from
  return unpack(values)
end
function struct.pack(format, ...)
  local text, n = '', 0
  for kind, size in format:gmatch('([BIic])(%d*)') do
    n = n + 1
    local value, bytes = select(n, ...), ''
    for _ = 1, kind == 'c' and 0 or tonumber(size) or 1 do
      bytes, value = string.char(value % 256) .. bytes, math.floor(value / 256)
    end
    text = text .. (kind == 'c' and value or bytes)
  end
  return text
end
