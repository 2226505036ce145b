-- Reads the exceptions of a policy, writes one word of an operator, or puts
-- back words that Redis has lost. KEYS[2], if given: the hash of the policy's
-- history, with its last 100 changes. A field is a stamp in microseconds. A
-- value is the field of KEYS[1] that changed, behind its length and a colon, 1
-- if an exception was there or 0, a space, and the word. What a process puts
-- back is the change of 'restore'. It lives as long as KEYS[1], which goes
-- before: what can't be noted is written all the same. KEYS[1]: the hash of the
-- policy's exceptions. A field is the newest word about a key: its stamp in
-- microseconds, when it was written and when it ends in milliseconds since
-- 1970, and JSON, with a space between each. An end of 0 means never, and that
-- of a removal is 1. Stamps order words: they are the server's clock, but above
-- each stamp before. The field '' has the version: the highest stamp, the
-- horizon, and a random number. Removals up to the horizon may be dropped: who
-- remembers older words that the hash lacks forgets them.
--
-- Without arguments it reads: it returns the time in milliseconds since 1970,
-- of the server that has the hash, and the hash.
--
-- 'set': ARGV[2] is the field, ARGV[3] the JSON, ARGV[4] for how many
-- milliseconds it holds, 0: no end, -1: it is a removal, ARGV[5] how many there
-- may be, ARGV[6] a random number, and ARGV[7] 1 to note it in the history or
-- 0. It returns 1 if an exception was there, 0 if not, and -1 if one more would
-- be too many: then nothing has changed.
--
-- 'put': ARGV[2] is the version that the hash must still have, ARGV[3] its
-- version then, and ARGV[4] fields and values, each behind its length and a
-- colon; an empty value drops the field. ARGV[5] is JSON for the history, or
-- empty. It returns 1, or 0 if the hash has another version: then nothing has
-- changed.
--
-- 'note': ARGV[2] are fields and values of the history, as above, that it takes
-- in unless it has them. Nothing else changes.
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
local changes = {} -- of the history, by their stamps
local changed      -- the stamp of a change that this call makes, its field and its word
if ARGV[1] == 'put' then
  if version ~= ARGV[2] then return 0 end
  version = ARGV[3]
  pairsOf(ARGV[4], function(field, value) words[field] = value ~= '' and value or nil end)
  if ARGV[5] ~= '' then
    local stamp = math.max(time[1] * 1000000 + time[2], (read(version) or 0) + 1)
    changed = {stamp, 'restore', string.format('%.0f %.0f 0 %s', stamp, now, ARGV[5])}
  end
elseif ARGV[1] == 'note' then
  pairsOf(ARGV[2], function(stamp, value) changes[stamp] = value end)
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
  if ARGV[7] == '1' then changed = {stamp, ARGV[2], words[ARGV[2]]} end

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
local lasts = string.format('%.0f', last - now + 100 * day) -- the horizon outlives the words, for processes that were away meanwhile
if ARGV[1] ~= 'note' then
  -- Without the right to write nothing may be deleted. A full memory refuses
  -- only what comes before the first write of a script.
  local refused = redis.pcall('HSET', KEYS[1], '', version)
  if type(refused) == 'table' and refused.err and not string.find(refused.err, 'OOM', 1, true) then return refused end
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], '', version)
  for field, value in pairs(words) do redis.call('HSET', KEYS[1], field, value) end
  if not forever then redis.call('PEXPIRE', KEYS[1], lasts) end
end

-- The history. A foreign key stays as it is, and what the user may not do fails
-- nothing.
local known = KEYS[2] and redis.pcall('HLEN', KEYS[2])
if not known or type(known) == 'number' and known > 10000 then return was end
known = redis.pcall('HGETALL', KEYS[2])
if known.err then return was end
for i = 1, #known, 2 do changes[known[i]] = known[i + 1] end
if changed then
  local stamp, field, word = unpack(changed)
  while changes[string.format('%.0f', stamp)] do stamp = stamp + 1 end
  changes[string.format('%.0f', stamp)] = #field .. ':' .. field .. was .. ' ' .. word -- a key may have a zero byte, which ends a %s
end
local stamps = {}
for stamp in pairs(changes) do
  if tonumber(stamp) then stamps[#stamps + 1] = stamp end
end
table.sort(stamps, function(a, b) return tonumber(a) > tonumber(b) end) -- the newest first
for i = 101, #stamps do changes[stamps[i]] = nil end
if #stamps == 0 or type(redis.pcall('DEL', KEYS[2])) == 'table' then return was end
for stamp, value in pairs(changes) do redis.call('HSET', KEYS[2], stamp, value) end
if not forever then redis.call('PEXPIRE', KEYS[2], lasts) end
return was
