-- Token buckets, decided for many keys in one call. The twin of bucket.go and rate.go: change them
-- together.
--
--   level = min(full, level + floor((now - at) / step) * gain)        refill
--   allowed if every limit has level >= n * unit                      check
--   level = level - n * unit                                          take
--
-- All numbers are whole and below 2^53, so these doubles are exact. A token is `unit` units.
--
-- KEYS[i]      state of one (policy, key): a record for each limit, tag, tokens and time
-- ARGV[1]      now in µs since 1970; '' for this server's clock
-- ARGV[2i]     the limits of KEYS[i]: for each tag, aligned, capacity, unit, gain, step
-- ARGV[2i+1]   the request: action, n, and within (take) or due (cancel) in µs
--
-- Returns now, then for each key '+' or '-' (allowed or not) and its records, refilled to now; or
-- '!' and what is wrong with that key. One key's error leaves the others alone.

local RECORD, RECORD_SIZE = '>I2dI7', 17
local LIMIT = '>I2Bdddd'
local REQUEST = '>Bdd'
local TAKE, REFUND, CANCEL = 0, 1, 2
local MAX_DEBT = 2 ^ 51 - 1
local FOREVER = 2 ^ 53
local MARGIN = 1000 -- ms that state outlives the moment it no longer matters

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
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

local parsed = {} -- by their packed form: the keys of a call mostly share their limits
local function limits_of(packed)
  local limits = parsed[packed]
  if not limits then
    limits = {}
    local from = 1
    while from <= #packed do
      local limit = {}
      local aligned
      limit.tag, aligned, limit.capacity, limit.unit, limit.gain, limit.step, from = unpack(LIMIT, packed, from)
      limit.aligned = aligned == 1
      limit.full = limit.capacity * limit.unit
      limits[#limits + 1] = limit
    end
    parsed[packed] = limits
  end
  return limits
end

-- The stored records by tag; nil for a key that does not exist.
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
    records[tag] = { tokens = tokens, at = at }
    records.only = from == 1 and records[tag] or nil
  end
  return records
end

local function decide(key, limits, request)
  local state = redis.pcall('GET', key)
  if type(state) == 'table' then
    return '!' .. state.err
  end
  local records, bad = records_of(state)
  if bad then
    return '!' .. bad
  end
  local action, n, moment = unpack(REQUEST, request)

  local levels, times = {}, {}
  local allowed, write = true, false
  for i, limit in ipairs(limits) do
    -- A sole limit keeps its tokens under any name; else a limit not stored yet starts full.
    local record = records and (records[limit.tag] or (#limits == 1 and records.only))
    if record then
      local level = floor(record.tokens * limit.unit + 0.5)
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
    redis.call('SET', key, packed, 'PX', ceil(until_full / 1000) + MARGIN)
  end
  return (allowed and '+' or '-') .. packed
end

local replies = { string.format('%.0f', now) }
for i, key in ipairs(KEYS) do
  replies[i + 1] = decide(key, limits_of(ARGV[2 * i]), ARGV[2 * i + 1])
end
return replies
