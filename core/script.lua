-- Token buckets, decided for many keys in one call. The twin of bucket.go and rate.go: change them
-- together.
--
--   level = min(full, level + floor((now - at) / step) * gain)        refill
--   allowed if every limit has level >= n * unit                      check
--   level = level - n * unit                                          take
--
-- All numbers are whole and below 2^53, so these doubles are exact. A token is `unit` units.
--
-- KEYS[i]   state of one (policy, key): a record for each limit, tag, tokens and time
-- ARGV[1]   now in µs since 1970; '' for this server's clock
-- ARGV[2]   a request for each of KEYS: which limits, action, n, and within (take) or due (cancel) in µs
-- ARGV[3…]  lists of limits: for each tag, aligned, capacity, unit, gain, step
--
-- Returns one string: now, then for each key its length and '+' or '-' (allowed or not) and its records,
-- refilled to now; or '!' and what is wrong with that key. One key's error leaves the others alone.

local RECORD, RECORD_SIZE = '>I2dI7', 17
local LIMIT = '>I2Bdddd'
local REQUEST, REQUEST_SIZE = '>I2Bdd', 19
local NOW, ANSWER = '>d', '>I2c0'
local TAKE, REFUND, CANCEL = 0, 1, 2
local MAX_DEBT = 2 ^ 51 - 1
local FOREVER = 2 ^ 53
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS = 8
local MARGIN = 1000 -- ms that state outlives the moment it no longer matters

local abs, floor, ceil, min, max = math.abs, math.floor, math.ceil, math.min, math.max
local pack, unpack = struct.pack, struct.unpack

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function anchor(limit, at)
  if limit.aligned then
    return at - at % limit.step
  end
  return at
end

local function refill(limit, level, at, to)
  at = anchor(limit, at)
  if at > to then -- the clock stepped back: nothing refills, steps count anew
    return level, anchor(limit, to)
  end
  local steps = floor((to - at) / limit.step)
  local missing = ceil((limit.full - level) / limit.gain)
  if steps < missing then
    return level + steps * limit.gain, at + steps * limit.step
  end
  return limit.full, at + steps * limit.step
end

-- µs until a refilled level has `need` units
local function wait(limit, level, at, need)
  if level >= need then
    return 0
  end
  local steps = ceil((need - level) / limit.gain)
  if steps > floor(FOREVER / limit.step) then
    return FOREVER
  end
  return steps * limit.step - (now - at)
end

local function grants(limit, level, at, n, within)
  if n > limit.capacity then
    return false
  end
  local need = n * limit.unit
  return wait(limit, level, at, need) <= within and level - need >= -MAX_DEBT
end

local function units(limit, n)
  return min(n, limit.capacity) * limit.unit
end

local function give(limit, level, more)
  return min(level + more, limit.full)
end

local function parse(packed)
  local limits, from = { tags = {} }, 1
  while from <= #packed do
    local limit, aligned = {}, nil
    limit.tag, aligned, limit.capacity, limit.unit, limit.gain, limit.step, from = unpack(LIMIT, packed, from)
    limit.aligned = aligned == 1
    limit.full = limit.capacity * limit.unit
    limits[#limits + 1] = limit
    limits.tags[limit.tag] = true
  end
  return limits
end

-- The stored records, in their order; nil for a key that does not exist.
local function records_of(state)
  if not state then
    return nil
  end
  if #state == 0 or #state % RECORD_SIZE ~= 0 then
    return nil, 'is not a rate limit state'
  end
  local records = {}
  for from = 1, #state, RECORD_SIZE do
    local tag, tokens, at = unpack(RECORD, state, from)
    if not (tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER) then
      return nil, 'is not a rate limit state'
    end
    records[#records + 1] = { tag = tag, tokens = tokens, at = at }
  end
  return records
end

-- The record of a limit. A sole limit keeps its tokens under any name; else a limit not stored yet
-- starts full.
local function find(records, limit, sole)
  for _, record in ipairs(records or {}) do
    if record.tag == limit.tag or sole and #records == 1 then
      return record
    end
  end
end

-- The records of limits that this request does not have, as when two versions of a policy are in use
-- at once: they are kept, so that neither forgets what the other's limits lost.
local function others(records, limits)
  local kept = {}
  for _, record in ipairs(records or {}) do
    if not limits.tags[record.tag] and not record.renamed and #kept < MAX_OTHERS then
      kept[#kept + 1] = pack(RECORD, record.tag, record.tokens, record.at)
    end
  end
  return table.concat(kept)
end

local function decide(key, limits, action, n, moment)
  local state = redis.pcall('GET', key)
  if type(state) == 'table' then
    return '!' .. state.err
  end
  local records, bad = records_of(state)
  if bad then
    return '!' .. bad
  end

  local levels, times = {}, {}
  local allowed, write = true, false
  for i, limit in ipairs(limits) do
    local record = find(records, limit, #limits == 1)
    if record then
      record.renamed = record.tag ~= limit.tag
      local level = record.tokens * limit.unit
      level = floor(level + abs(level) * ROUNDING_ERROR)
      level = max(-MAX_DEBT, min(level, limit.full))
      levels[i], times[i] = refill(limit, level, record.at, now)
      write = write or record.at > now
    else
      levels[i], times[i] = limit.full, anchor(limit, now)
    end
    if action == TAKE and not grants(limit, levels[i], times[i], n, moment) then
      allowed = false
    end
  end

  if action == TAKE and allowed and n > 0 then
    write = true
    for i, limit in ipairs(limits) do
      levels[i] = levels[i] - n * limit.unit
    end
  elseif action == REFUND and records then
    write = true
    for i, limit in ipairs(limits) do
      levels[i] = give(limit, levels[i], units(limit, n))
    end
  elseif action == CANCEL and records then
    write = true
    for i, limit in ipairs(limits) do
      -- What the bucket would lack when the reservation is due is promised to later ones.
      local lack = min(0, (refill(limit, levels[i], times[i], max(now, moment))))
      levels[i] = give(limit, levels[i], max(0, units(limit, n) + lack))
    end
  end

  local packed, until_full = {}, 0
  for i, limit in ipairs(limits) do
    packed[i] = pack(RECORD, limit.tag, levels[i] / limit.unit, times[i])
    until_full = max(until_full, wait(limit, levels[i], times[i], limit.full))
  end
  packed = table.concat(packed)
  if write then
    local kept, ttl = others(records, limits), ceil(until_full / 1000) + MARGIN
    if kept ~= '' then
      ttl = max(ttl, redis.call('PTTL', key))
    end
    redis.call('SET', key, packed .. kept, 'PX', ttl)
  end
  return (allowed and '+' or '-') .. packed
end

local lists = {} -- parsed when first used: the keys of a call mostly share their limits
local reply = { pack(NOW, now) }
for i, key in ipairs(KEYS) do
  local list, action, n, moment = unpack(REQUEST, ARGV[2], (i - 1) * REQUEST_SIZE + 1)
  lists[list] = lists[list] or parse(ARGV[3 + list])
  local answer = decide(key, lists[list], action, n, moment)
  reply[i + 1] = pack(ANSWER, #answer, answer)
end
return table.concat(reply)
