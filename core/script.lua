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
--           of a lease (see leased.go) n, extra, and taken, at and back of the one before.
--           An action of 128 more: the key is used under other limits too, and kept for as long as they said
-- ARGV[3…]  lists of limits: for each tag, aligned, capacity, unit, gain, step
--
-- Returns one string: now, then for each key '+' or '-' (allowed or not) and the records of its limits,
-- refilled to now, and of a lease how many tokens are on it; or '!' and why that key was not decided, the
-- length first. One key's error leaves the others alone. Where the server refuses all of them, that error is
-- the reply.

local RECORD, RECORD_SIZE = '>I2dI7', 17
local LIMIT, LIMIT_SIZE = '>I2Bdddd', 35
local REQUEST, REQUEST_SIZE = '>I2Bdd', 19
local TERMS, TERMS_SIZE = '>ddd', 24
local NUMBER, ERROR = '>d', '>I2c0'
local TAKE, CANCEL, LEASE = 0, 2, 3 -- 1 is refund
local VARIES = 128
local LEASED_TAG, LEASE_WINDOW = 2 ^ 16 - 2, 1000000
local MAX_DEBT = 2 ^ 51 - 1
local NONE = { tokens = 0, at = 0 } -- no lease
local FOREVER = 2 ^ 53
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS = 8
local MARGIN = 1000 -- ms that state outlives the moment it no longer matters
local MAX_INT = 2 ^ 31 -- below it '%d' is right on any server, and cheaper than how Redis writes a number

-- Calls cost more than sums here, and so does every function that is made, on every run: x - x % 1 stands
-- for floor(x) and x + -x % 1 for ceil(x), comparisons for min and max.
local pack, unpack, format = struct.pack, struct.unpack, string.format
local pcall = redis.pcall -- errors are answers

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function refill(room, limit, level, at, to)
  local step = limit.step
  if limit.aligned then
    at = at - at % step
  end
  if at > to then -- the clock stepped back: nothing refills, steps count anew
    return level, limit.aligned and to - to % step or to
  end
  local steps = (to - at) / step
  steps = steps - steps % 1
  level = level + steps * limit.gain
  if level > room then
    level = room
  end
  return level, at + steps * step
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
  local need = n * limit.unit
  if level >= need then
    return true
  end
  return n <= limit.capacity and wait(limit, level, at, need) <= within and level - need >= -MAX_DEBT
end

-- What only leases and refunds need, made for the first that comes: see leased.go
local rare
local function leasing()
  if rare then
    return rare
  end
  rare = {}

  -- How much a limit's bucket can hold while `out` tokens are on lease
  local function room(limit, out)
    return limit.full - math.min(out, limit.capacity) * limit.unit
  end

  local function over(lease)
    return lease.at + 2 * LEASE_WINDOW
  end

  local function tokens(leased)
    return (leased[0] and leased[0].tokens or 0) + (leased[1] and leased[1].tokens or 0)
  end

  -- A limit's level with more units, as long as it has room for them and for what is on lease
  function rare.give(limit, more, out)
    return math.max(limit.level, math.min(limit.level + more, room(limit, out)))
  end

  -- refill around what is on lease: each window's tokens keep their room until they are over.
  function rare.refill(leased, limit, level, at)
    local out = tokens(leased)
    local first = (leased[0] and leased[1] and leased[1].at < leased[0].at) and 1 or 0
    for _, lease in ipairs({ leased[first] or NONE, leased[1 - first] or NONE }) do
      if over(lease) > now then
        break
      end
      if over(lease) > at then
        level, at = refill(room(limit, out), limit, level, at, over(lease))
      end
      out = out - lease.tokens
    end
    return refill(room(limit, out), limit, level, at, now)
  end

  -- Forgets leases that are over, and settles the one that a request's terms tell of. Returns how many
  -- tokens are on lease still, and how many come back: nil if there is nothing to settle.
  function rare.settle(leased, terms)
    for side = 0, 1 do
      if leased[side] and over(leased[side]) <= now then
        leased[side] = nil
      end
    end
    local back
    if terms then
      local taken, at, unused = unpack(TERMS, ARGV[2], terms)
      local before = leased[at / LEASE_WINDOW % 2]
      if taken > 0 and before and before.at == at and before.tokens >= taken then
        before.tokens = before.tokens - taken
        back = unused
      end
    end
    return tokens(leased), back
  end

  -- Takes up to `extra` tokens beyond n on lease: half of what every limit has left at most. Returns how many.
  function rare.lend(leased, limits, n, extra)
    for _, limit in ipairs(limits) do
      extra = math.min(extra, math.floor((math.floor(limit.level / limit.unit) - n) / 2))
    end
    local window = now - now % LEASE_WINDOW
    local side = window / LEASE_WINDOW % 2
    leased[side] = leased[side] or { tokens = 0, at = window }
    leased[side].tokens = leased[side].tokens + extra
    return extra
  end

  -- The records of what is on lease, and when the last of it is over: nil when nothing is
  function rare.records(leased)
    local records, ends = '', nil
    for side = 0, 1 do
      local lease = leased[side]
      if lease and lease.tokens > 0 then
        records = records .. pack(RECORD, LEASED_TAG + side, lease.tokens, lease.at)
        ends = math.max(ends or 0, over(lease))
      end
    end
    return records, ends
  end

  return rare
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

-- Gives each limit its stored tokens. Returns false when state is not as this request's limits wrote it,
-- which is rare.
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

-- The same for any state: limits that it does not have get nil, for they start full. Returns false when
-- state is none of this script's, and the records of limits that this request does not have, as when two
-- versions of a policy are in use at once: they are kept, so that neither forgets what the other's limits
-- lost. The records of leases come third, by whether their window is of even number; nil if there are none.
local function arrange(limits, state)
  local records, leased = {}, nil
  local window = now - now % LEASE_WINDOW
  for from = 1, #state, RECORD_SIZE do
    local tag, tokens, at = unpack(RECORD, state, from)
    if not (tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER) then
      return false
    end
    if tag < LEASED_TAG then
      records[#records + 1] = { tag = tag, tokens = tokens, at = at }
    elseif at <= window + LEASE_WINDOW then -- else a clock that stepped back left it ahead
      leased = leased or {}
      leased[tag - LEASED_TAG] = { tokens = tokens, at = at }
    end
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
  return true, table.concat(kept), leased
end

-- Decides one key. Returns '+' or '-' and the records of its limits; or '!', an error, and whether that
-- says more of the server than of the key.
local function decide(key, limits, action, varies, n, moment, terms)
  local state = pcall('GET', key)
  local kept, leased = '', nil
  if not state then
    for i = 1, #limits do
      limits[i].tokens = nil
    end
  elseif not read(limits, state) then
    if type(state) == 'table' then
      return '!', state.err, not state.err:find('^WRONGTYPE')
    end
    local ok = #state > 0 and #state % RECORD_SIZE == 0
    if ok then
      ok, kept, leased = arrange(limits, state)
    end
    if not ok then
      return '!', 'is not a rate limit state'
    end
  end

  local takes = action == TAKE or action == LEASE
  local allowed, write = true, false
  for i = 1, #limits do
    local limit = limits[i]
    if limit.tokens then
      local level, at = limit.tokens * limit.unit, limit.at
      if level % 1 ~= 0 then
        level = level + math.abs(level) * ROUNDING_ERROR
        level = level - level % 1
      end
      if level > limit.full then
        level = limit.full
      elseif level < -MAX_DEBT then
        level = -MAX_DEBT
      end
      write = write or at > now
      if leased then
        limit.level, limit.at = leasing().refill(leased, limit, level, at)
      else
        limit.level, limit.at = refill(limit.full, limit, level, at, now)
      end
    else
      limit.level, limit.at = refill(limit.full, limit, limit.full, now, now) -- its steps begin here
    end
    if action == TAKE and limit.level < n * limit.unit and not grants(limit, limit.level, limit.at, n, moment) then
      allowed = false
    end
  end

  local out = 0 -- tokens on lease
  if leased or action == LEASE then
    leased = leased or {}
    local back
    out, back = leasing().settle(leased, action == LEASE and terms)
    write = write or back ~= nil
    for _, limit in ipairs(action == LEASE and limits or {}) do
      limit.level = leasing().give(limit, (back or 0) * limit.unit, out)
      allowed = allowed and grants(limit, limit.level, limit.at, n, 0)
    end
  end

  local taken, extra = 0, 0
  if takes then
    if allowed and n > 0 then
      write, taken = true, n
    end
    if action == LEASE and taken > 0 then
      extra = leasing().lend(leased, limits, n, moment)
      taken = n + extra
    end
  elseif state then
    write = true
    for _, limit in ipairs(limits) do
      local more = math.min(n, limit.capacity) * limit.unit
      if action == CANCEL then
        -- What the bucket would lack when the reservation is due is promised to later ones.
        local lack = math.min(0, (refill(limit.full, limit, limit.level, limit.at, math.max(now, moment))))
        more = math.max(0, more + lack)
      end
      limit.level = leasing().give(limit, more, out)
    end
  end

  local leases, ends = '', nil -- what is on lease, and till when it may be used
  if leased then
    leases, ends = leasing().records(leased)
  end
  local packed, until_full = '', 0
  for i = 1, #limits do
    local limit = limits[i]
    local level, at = limit.level - taken * limit.unit, limit.at
    local record = pack(RECORD, limit.tag, level / limit.unit, at)
    packed = i == 1 and record or packed .. record
    if write then
      if ends then
        local _
        _, at = refill(limit.full, limit, level, at, ends)
      end
      local refilled = wait(limit, level, at, limit.full)
      if refilled > until_full then
        until_full = refilled
      end
    end
  end
  if write then
    local ttl = until_full / 1000
    ttl = ttl + -ttl % 1 + MARGIN
    if varies or kept ~= '' then
      local left = pcall('PTTL', key)
      if type(left) == 'table' then
        return '!', left.err, true
      end
      ttl = math.max(ttl, left)
    end
    if ttl < MAX_INT then
      ttl = format('%d', ttl)
    end
    local set = pcall('SET', key, packed .. kept .. leases, 'PX', ttl)
    if set.err then
      return '!', set.err, true
    end
  end
  if action == LEASE then
    packed = packed .. pack(NUMBER, extra)
  end
  return allowed and '+' or '-', packed
end

local keys, requests = KEYS, ARGV[2]
local lists = {} -- parsed when first used: the keys of a call mostly share their limits
local reply = { pack(NUMBER, now) }
local refused, from = 0, 1
for i = 1, #keys do
  local list, action, n, moment = unpack(REQUEST, requests, from)
  from = from + REQUEST_SIZE
  local terms, varies = from, action >= VARIES
  if varies then
    action = action - VARIES
  end
  if action == LEASE then
    from = from + TERMS_SIZE
  end
  local limits = lists[list]
  if not limits then
    limits = parse(ARGV[3 + list])
    lists[list] = limits
  end
  local sign, answer, refusal = decide(keys[i], limits, action, varies, n, moment, terms)
  if sign == '!' then
    answer = answer:match('^%-?(.-)%s*$') -- without the frame that servers before Redis 7 leave
    if refusal then
      refused = refused + 1
    end
    if refused == #keys then
      return { err = answer }
    end
    answer = pack(ERROR, #answer, answer)
  end
  reply[2 * i], reply[2 * i + 1] = sign, answer
end
return table.concat(reply)
