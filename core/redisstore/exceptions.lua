-- Reads the exceptions of a policy; or sets or removes one, and forgets those that have ended.
-- KEYS[1]: the hash of the policy's exceptions. Each value begins with when it ends, in milliseconds since 1970, 0 meaning never, and
-- a space. The field '' has the hash's version instead.
-- ARGV[1]: the field. ARGV[2]: its value without its end, or '' to remove it. ARGV[3]: for how many milliseconds it holds; 0: no end.
-- ARGV[4]: how many there may be.
-- Without arguments it reads: it returns the time in milliseconds since 1970, of the server that has the hash, and the hash.
-- Otherwise it returns 1 if the field was there, 0 if it was not, and -1 if one more would be too many: then nothing has changed.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local size = redis.pcall('HLEN', KEYS[1]) -- a user may have no right to it
if type(size) == 'number' and size > 10000 then
  return redis.error_reply('FOREIGN ' .. size .. ' fields: reading them would keep Redis from its work')
end
local fields = redis.call('HGETALL', KEYS[1])
if #ARGV == 0 then return {now, fields} end

local version = time[1] * 1000000 + time[2] -- not one that was before, also if the hash was deleted in between
local exceptions = {}
local far = 2 ^ 52 -- what another program wrote is no time
for i = 1, #fields, 2 do
  local ends = tonumber(string.match(fields[i + 1], '^%d+')) or 0
  if fields[i] == '' then
    if ends < far then version = math.max(version, ends + 1) end
  elseif ends == 0 or ends > now then
    exceptions[fields[i]] = fields[i + 1]
  end
end

local was = exceptions[ARGV[1]] and 1 or 0
if ARGV[2] == '' then
  exceptions[ARGV[1]] = nil
else
  local ends = ARGV[3] == '0' and 0 or now + tonumber(ARGV[3])
  exceptions[ARGV[1]] = string.format('%.0f %s', ends, ARGV[2])
end

local count, last, forever = 0, now, false
for _, value in pairs(exceptions) do
  local ends = tonumber(string.match(value, '^%d+')) or 0
  forever = forever or ends == 0 or ends > far
  count, last = count + 1, math.max(last, ends)
end
if count > tonumber(ARGV[4]) and ARGV[2] ~= '' and was == 0 then return -1 end

redis.call('DEL', KEYS[1])
if count == 0 then return was end
redis.call('HSET', KEYS[1], '', string.format('%.0f', version))
for field, value in pairs(exceptions) do
  redis.call('HSET', KEYS[1], field, value)
end
if not forever then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', last - now)) end
return was
