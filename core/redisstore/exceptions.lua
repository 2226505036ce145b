-- Reads a policy's exceptions, or changes some. KEYS[1] is their hash. A field
-- is a key, and its value JSON: see entry in exception_hash.go. The field '' is
-- the version of the hash, and each change gives it a higher one.
--
-- Without arguments it returns the fields and values of the hash, and then the
-- server's time in microseconds since 1970. With arguments it changes the hash
-- if that still has the version ARGV[1], and returns 1, or 0 if it has another
-- one. ARGV[2] is the version then, ARGV[3] in how many milliseconds the hash
-- expires, and ARGV[4] and on are fields with their new values; an empty value
-- drops the field.
local key = KEYS[1]
if #ARGV == 0 then
  local size = redis.call('HLEN', key)
  if size > 10000 then
    return redis.error_reply('FOREIGN ' .. size .. ' fields: reading them would keep Redis from its work')
  end
  local list, time = redis.call('HGETALL', key), redis.call('TIME')
  list[#list + 1] = string.format('%.0f', time[1] * 1000000 + time[2])
  return list
end
if (redis.call('HGET', key, '') or '') ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', key, ARGV[3]) -- a full memory refuses only what comes before the first write
redis.call('HSET', key, '', ARGV[2])
for i = 4, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', key, ARGV[i])
  else
    redis.call('HSET', key, ARGV[i], ARGV[i + 1])
  end
end
redis.call('PEXPIRE', key, ARGV[3])
return 1
