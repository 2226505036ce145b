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
-- ARGV[2]   a request for each of KEYS: which limits, action, n, and within (take) or due (cancel) in µs;
--           of a lease n, extra, and the taken, at and back of the lease before
-- ARGV[3…]  lists of limits: for each tag, aligned, capacity, unit, gain, step
--
-- Returns one string: now, then for each key '+' or '-' (allowed or not) and the records of its limits,
-- refilled to now, and of a lease how many tokens are on it; or '!' and what is wrong with that key, its length first. One key's error leaves the
-- others alone.

local RECORD, RECORD_SIZE = '>I2dI7', 17
local LIMIT, LIMIT_SIZE = '>I2Bdddd', 35
local REQUEST, REQUEST_SIZE = '>I2Bdd', 19
local TERMS, TERMS_SIZE = '>ddd', 24
local NUMBER, ERROR = '>d', '>I2c0'
local TAKE, CANCEL, LEASE = 0, 2, 3 -- 1 is refund
local LEASED_TAG = 2 ^ 16 - 2
local LEASE_WINDOW = 1000000
local MAX_DEBT = 2 ^ 51 - 1
local FOREVER = 2 ^ 53
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS = 8
local MARGIN = 1000 -- ms that state outlives the moment it no longer matters

-- Calls cost more than sums here, so x - x % 1 stands for floor(x) and x + -x % 1 for ceil(x), and
-- comparisons for min and max.
local abs, min, max = math.abs, math.min, math.max
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
  local steps = (to - at) / limit.step
  steps = steps - steps % 1
  at = at + steps * limit.step
  if level + steps * limit.gain < limit.full then
    return level + steps * limit.gain, at
  end
  return limit.full, at
end

-- µs until a refilled level has `need` units
local function wait(limit, level, at, need)
  if level >= need then
    return 0
  end
  local steps = (need - level) / limit.gain
  steps = steps + -steps % 1
  if steps * limit.step > FOREVER then
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

-- what a bucket may hold while `out` tokens are on lease
local function room(limit, out)
  return limit.full - min(out, limit.capacity) * limit.unit
end

local function units(limit, n)
  return min(n, limit.capacity) * limit.unit
end

-- A limit's tokens (as stored), level and at are those of the key that is being decided.
local function parse(packed)
  local limits, from = {}, 1
  for i = 1, #packed / LIMIT_SIZE do
    local tag, aligned, capacity, unit, gain, step = unpack(LIMIT, packed, from)
    limits[i] = {
      tag = tag, aligned = aligned == 1, capacity = capacity, unit = unit, gain = gain, step = step,
      full = capacity * unit, tokens = 0, level = 0, at = 0,
    }
    from = from + LIMIT_SIZE
  end
  return limits
end

-- The stored records of limits, in their order, or nil when the state is none of this script's. Those of
-- leases (see leased.go) go into `leased`, unless their time is over.
local function records_of(state, leased)
  local records = {}
  local window = now - now % LEASE_WINDOW
  for from = 1, #state, RECORD_SIZE do
    local tag, tokens, at = unpack(RECORD, state, from)
    if not (tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER) then
      return nil
    end
    if tag < LEASED_TAG then
      records[#records + 1] = { tag = tag, tokens = tokens, at = at }
    elseif abs(at - window) <= LEASE_WINDOW then
      leased[tag - LEASED_TAG] = { tokens = tokens, at = at }
      leased.out = leased.out + tokens
    end
  end
  return records
end

-- Ends the lease that a request tells of. Returns what comes back of it: nil when it is over.
local function settle(leased, taken, at, back)
  local lease = leased[at / LEASE_WINDOW % 2]
  if taken == 0 or not lease or lease.at ~= at or lease.tokens < taken then
    return nil
  end
  lease.tokens = lease.tokens - taken
  return back
end

-- Counts tokens as leased now.
local function add(leased, tokens)
  local window = now - now % LEASE_WINDOW
  local side = window / LEASE_WINDOW % 2
  local lease = leased[side]
  if not lease or lease.at ~= window then
    lease = { tokens = 0, at = window }
    leased[side] = lease
  end
  lease.tokens = lease.tokens + tokens
end

-- The records of leases, and how many µs after now the last one ends.
local function pack_leased(leased)
  local packed, left = '', 0
  for side = 0, 1 do
    local lease = leased[side]
    if lease and lease.tokens > 0 then
      packed = packed .. pack(RECORD, LEASED_TAG + side, lease.tokens, lease.at)
      left = max(left, lease.at + 2 * LEASE_WINDOW - now)
    end
  end
  return packed, left
end

-- Gives each limit its stored tokens, nil when it starts full. Returns false when the state is none of
-- this script's, and the records of limits that this request does not have, as when two versions of a
-- policy are in use at once: they are kept, so that neither forgets what the other's limits lost.
local function arrange(limits, state, leased)
  local records = #state > 0 and #state % RECORD_SIZE == 0 and records_of(state, leased)
  if not records then
    return false
  end
  local used = {}
  for i, limit in ipairs(limits) do
    limit.tokens = nil
    for j, record in ipairs(records) do
      -- A sole limit keeps its tokens under any name.
      local same = record.tag == limit.tag or #limits == 1 and #records == 1
      if same and (not limit.tokens or j == i) then
        limit.tokens, limit.at = record.tokens, record.at
        used[record.tag] = true
      end
    end
  end
  local kept = {}
  for _, record in ipairs(records) do
    if not used[record.tag] and #kept < MAX_OTHERS then
      kept[#kept + 1] = pack(RECORD, record.tag, record.tokens, record.at)
    end
  end
  return true, table.concat(kept)
end

-- The same for state as this request's limits wrote it, which is the rule: returns false otherwise.
local function read(limits, state)
  if #state ~= #limits * RECORD_SIZE then
    return false
  end
  for i = 1, #limits do
    local limit = limits[i]
    local tag, tokens, at = unpack(RECORD, state, (i - 1) * RECORD_SIZE + 1)
    if tag ~= limit.tag or not (tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER) then
      return false
    end
    limit.tokens, limit.at = tokens, at
  end
  return true
end

-- Decides one key. Returns '+' or '-' and the records of its limits, or '!' and an error.
local function decide(key, limits, action, n, moment, taken, taken_at, back)
  local state = redis.pcall('GET', key)
  local kept, leased, out = '', nil, 0
  if not state then
    for i = 1, #limits do
      limits[i].tokens = nil
    end
  elseif type(state) == 'table' then
    return '!', state.err
  elseif not read(limits, state) then
    local ok
    leased = { out = 0 }
    ok, kept = arrange(limits, state, leased)
    if not ok then
      return '!', 'is not a rate limit state'
    end
    out = leased.out
  end

  local allowed, write, settled = true, false, nil
  if action == LEASE then
    leased = leased or { out = 0 }
    settled = settle(leased, taken, taken_at, back)
    write = settled ~= nil
  end
  local takes = action == TAKE or action == LEASE
  for i = 1, #limits do
    local limit = limits[i]
    if limit.tokens then
      local level = limit.tokens * limit.unit
      if level % 1 ~= 0 then
        level = level + abs(level) * ROUNDING_ERROR
        level = level - level % 1
      end
      if level > limit.full then
        level = limit.full
      elseif level < -MAX_DEBT then
        level = -MAX_DEBT
      end
      write = write or limit.at > now
      limit.level, limit.at = refill(limit, level, limit.at, now)
    else
      limit.level, limit.at = limit.full, anchor(limit, now)
    end
    if out > 0 then
      limit.level = min(limit.level, room(limit, out)) + (settled or 0) * limit.unit
    end
    if takes and not grants(limit, limit.level, limit.at, n, action == TAKE and moment or 0) then
      allowed = false
    end
  end

  local extra = 0
  if takes then
    if allowed and n > 0 then
      write = true
      if action == LEASE then
        extra = moment
        for _, limit in ipairs(limits) do
          extra = min(extra, math.floor((math.floor(limit.level / limit.unit) - n) / 2))
        end
        add(leased, extra)
      end
      for i = 1, #limits do
        limits[i].level = limits[i].level - (n + extra) * limits[i].unit
      end
    end
  elseif state then
    write = true
    for _, limit in ipairs(limits) do
      local more = units(limit, n)
      if action == CANCEL then
        -- What the bucket would lack when the reservation is due is promised to later ones.
        local lack = min(0, (refill(limit, limit.level, limit.at, max(now, moment))))
        more = max(0, more + lack)
      end
      limit.level = min(limit.level + more, room(limit, out))
    end
  end

  local packed, until_full = '', 0
  for i = 1, #limits do
    local limit = limits[i]
    local record = pack(RECORD, limit.tag, limit.level / limit.unit, limit.at)
    packed = i == 1 and record or packed .. record
    local refilled = wait(limit, limit.level, limit.at, limit.full)
    if refilled > until_full then
      until_full = refilled
    end
  end
  if write then
    local records, left = kept, 0
    if leased then
      records, left = pack_leased(leased)
      records = kept .. records
    end
    local ttl = max(until_full, left) / 1000
    ttl = ttl + -ttl % 1 + MARGIN
    if kept ~= '' then
      ttl = max(ttl, redis.call('PTTL', key))
      redis.call('SET', key, packed .. records, 'PX', ttl)
    else
      redis.call('SET', key, packed .. records, 'PX', ttl)
    end
  end
  if action == LEASE then
    packed = packed .. pack(NUMBER, extra)
  end
  return allowed and '+' or '-', packed
end

local lists = {} -- parsed when first used: the keys of a call mostly share their limits
local reply = { pack(NUMBER, now) }
local from = 1
for i = 1, #KEYS do
  local list, action, n, moment = unpack(REQUEST, ARGV[2], from)
  from = from + REQUEST_SIZE
  local taken, taken_at, back
  if action == LEASE then
    taken, taken_at, back = unpack(TERMS, ARGV[2], from)
    from = from + TERMS_SIZE
  end
  local limits = lists[list]
  if not limits then
    limits = parse(ARGV[3 + list])
    lists[list] = limits
  end
  local sign, answer = decide(KEYS[i], limits, action, n, moment, taken, taken_at, back)
  if sign == '!' then
    answer = pack(ERROR, #answer, answer)
  end
  reply[2 * i], reply[2 * i + 1] = sign, answer
end
return table.concat(reply)
