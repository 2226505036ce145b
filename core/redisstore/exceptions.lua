-- Reads the exceptions of a policy, writes one word of an operator, or puts
-- back words that Redis has lost. KEYS[1]: the hash of the policy's exceptions.
-- A field is the newest word about a key: its stamp in microseconds, when it
-- was written and when it ends in milliseconds since 1970, and JSON, with a
-- space between each. An end of 0 means never, and that of a removal is 1.
-- Stamps order words: they are the server's clock, but above each stamp before.
-- The field '' has the version: the highest stamp, the horizon, and a random
-- number. Removals up to the horizon may be dropped: who remembers older words
-- that the hash lacks forgets them.
--
-- Without arguments it reads: it returns the time in milliseconds since 1970,
-- of the server that has the hash, and the hash.
--
-- 'set': ARGV[2] is the field, ARGV[3] the JSON, ARGV[4] for how many
-- milliseconds it holds, 0: no end, -1: it is a removal, ARGV[5] how many there
-- may be, and ARGV[6] a random number. It returns 1 if an exception was there,
-- 0 if not, and -1 if one more would be too many: then nothing has changed.
--
-- 'put': ARGV[2] is the version that the hash must still have, ARGV[3] its
-- version then, and ARGV[4] fields and values, each behind its length and a
-- colon; an empty value drops the field. It returns 1, or 0 if the hash has
-- another version: then nothing has changed.
local day = 86400000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local size = redis.pcall('HLEN', KEYS[1]) -- a user may have no right to it
if type(size) == 'number' and size > 10000 then
  return redis.error_reply('FOREIGN ' .. size .. ' fields: reading them would keep Redis from its work')
end
local fields = redis.call('HGETALL', KEYS[1])
if #ARGV == 0 then return {now, fields} end

local words = {}
for i = 1, #fields, 2 do words[fields[i]] = fields[i + 1] end
local version = words[''] or ''
words[''] = nil

-- The three numbers of a word, or of a version; or nil: another program wrote
-- it, and it stays.
local function read(value)
  local stamp, written, ends = string.match(value .. ' ', '^(%d+) (%d+) (%d+) ')
  stamp, written, ends = tonumber(stamp), tonumber(written), tonumber(ends)
  if stamp and math.max(stamp, written, ends) < 2 ^ 52 then return stamp, written, ends end
end

-- Calls each with the pairs of a text.
local function pairsOf(all, each)
  local at = 1
  local function text()
    local colon = string.find(all, ':', at, true)
    local first = colon + 1
    at = first + tonumber(string.sub(all, at, colon - 1))
    return string.sub(all, first, at - 1)
  end
  while at <= #all do each(text(), text()) end
end

local was = 1
if ARGV[1] == 'put' then
  if version ~= ARGV[2] then return 0 end
  version = ARGV[3]
  pairsOf(ARGV[4], function(field, value) words[field] = value ~= '' and value or nil end)
else
  local stamp, horizon = read(version)
  stamp, horizon, was = math.max(time[1] * 1000000 + time[2], (stamp or 0) + 1), horizon or 0, 0
  local live, ended = 0, {}
  for field, value in pairs(words) do
    local other, written, ends = read(value)
    stamp = math.max(stamp, (other or 0) + 1)
    if not other or ends == 0 or ends > now then
      live = live + 1
      if field == ARGV[2] then was = 1 end
    elseif field ~= ARGV[2] then
      ended[#ended + 1] = {stamp = other, at = math.max(written, ends), field = field}
    end
  end
  if ARGV[4] ~= '-1' and was == 0 and live >= tonumber(ARGV[5]) then return -1 end
  local ends = ARGV[4]
  if ends == '-1' then ends = '1' elseif ends ~= '0' then ends = string.format('%.0f', now + tonumber(ends)) end
  words[ARGV[2]] = string.format('%.0f %.0f %s %s', stamp, now, ends, ARGV[3])

  table.sort(ended, function(a, b) return a.stamp > b.stamp end) -- the newest first
  for i, word in ipairs(ended) do
    if i >= tonumber(ARGV[5]) or now - word.at > day then
      words[word.field] = nil
      horizon = math.max(horizon, word.stamp)
    end
  end
  version = string.format('%.0f %.0f %s', stamp, horizon, ARGV[6])
end

local last, forever = now, false
for _, value in pairs(words) do
  local stamp, _, ends = read(value)
  forever = forever or not stamp or ends == 0
  last = math.max(last, ends or 0)
end
-- Without the right to write nothing may be deleted. A full memory refuses only
-- what comes before the first write of a script.
local refused = redis.pcall('HSET', KEYS[1], '', version)
if type(refused) == 'table' and refused.err and not string.find(refused.err, 'OOM', 1, true) then return refused end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '', version)
for field, value in pairs(words) do redis.call('HSET', KEYS[1], field, value) end
if not forever then -- the horizon outlives the words, for processes that were away meanwhile
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', last - now + 100 * day))
end
return was
