-- Token buckets, decided for many keys in one call. The twin of bucket.go, hold.go and rate.go: change them
-- together.
--
--   level = min(full, level + floor((now - at) / step) * gain)        refill
--   allowed if every limit has level >= n * unit                      check
--   level = level - n * unit                                          take
--
-- All numbers are whole and below 2^53, so these doubles are exact. A token is `unit` units.
--
-- KEYS[i]   state of one (policy, key): the records of its limits
-- ARGV[1]   now in µs since 1970; '' for this server's clock
-- ARGV[2]   a request for each of KEYS: which limits, action, n; of reserve, await and lease also more and
--           ticket; of an action with ENDS also the ticket of the hold that ends, and how many tokens come back
-- ARGV[3…]  lists of limits: for each tag, aligned, capacity, unit, gain, step
--
-- Returns one string: now, then for each key '+' or '-' (allowed or not), the level records of its limits,
-- refilled to now, and of reserve and await when the tokens are due, of lease how many are on it. Where tokens
-- are held it is 'a' or 'd', and last come for each limit the waits for n (or, if allowed, for one more) and until
-- it is full. Or '!', and why that key was not decided, the length first. One key's error leaves the others
-- alone. Where the server refuses all of them, that error is the reply.

-- A limit's record is its level: tag, tokens, the last step counted, until when it matters. Behind it are its
-- holds, in the order of their ends: tag, tokens, end, ticket.
local RECORD, RECORD_SIZE = '>I4dI7I7', 26
local LIMIT, LIMIT_SIZE = '>I4Bdddd', 37
local REQUEST, REQUEST_SIZE = '>I2Bd', 11
local PAIR, PAIR_SIZE = '>dd', 16
local NUMBER, ERROR = '>d', '>I2c0'
local TAKE, REFUND, RESERVE, AWAIT, LEASE = 0, 1, 3, 4, 5 -- 2 is end: the hold, and nothing else
local ENDS = 128
local LEASE_LIFE, FIRST_LEASE = 2000000, 2 ^ 52
local MAX_DEBT = 2 ^ 51 - 1
local FOREVER = 2 ^ 53
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS, MAX_HOLDS = 256, 4096
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

-- A level at `at`, refilled to an instant not before it, in a bucket with so much room
local function refill(room, limit, level, at, to)
  local step = limit.step
  if limit.aligned then
    at = at - at % step
  end
  local steps = (to - at) / step
  steps = steps - steps % 1
  level = level + steps * limit.gain
  if level > room then
    level = room
  end
  return level, limit.aligned and to or at + steps * step
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
  if limit.aligned then
    at = at - at % limit.step
  end
  return steps * limit.step - (now - at)
end

-- What only holds and refunds need, made for the first that comes: see hold.go
local rare
local function holding()
  if rare then
    return rare
  end
  rare = {}

  local function held(limit)
    local out = 0
    for _, hold in ipairs(limit.holds or {}) do
      out = out + hold.tokens
    end
    return out
  end

  -- How much a limit's bucket can have while `out` tokens are held
  local function room(limit, out)
    return math.max(limit.full - out * limit.unit, -MAX_DEBT)
  end

  -- refill of a bucket with holds. Those that ended before now are forgotten.
  function rare.refill(limit, level, at)
    local out, holds = held(limit), limit.holds
    while holds[1] and holds[1].at < now do
      if holds[1].at > at then
        level, at = refill(room(limit, out), limit, level, at, holds[1].at)
      end
      out = out - holds[1].tokens
      table.remove(holds, 1)
    end
    return refill(room(limit, out), limit, level, at, now)
  end

  -- wait in a bucket with holds: for as long as they leave no room, nothing comes.
  function rare.wait(limit, need)
    local level, at, out = limit.level, limit.at, held(limit)
    if level >= need then
      return 0
    end
    for _, hold in ipairs(limit.holds or {}) do
      local space = room(limit, out)
      if need <= space and now + wait(limit, level, at, need) <= hold.at then
        break
      elseif hold.at > at then
        level, at = refill(space, limit, level, at, hold.at)
      end
      out = out - hold.tokens
    end
    return math.min(FOREVER, wait(limit, level, at, need))
  end

  -- When a limit will be full and nothing held, so that its record doesn't matter any more
  function rare.full_at(limit)
    local at, holds = now + rare.wait(limit, limit.full), limit.holds
    if holds and #holds > 0 then
      at = math.max(at, holds[#holds].at + 1)
    end
    return math.min(at, FOREVER - 1)
  end

  -- Lets a record be kept for less long, unless other limits asked for that.
  local function forget_keep(limit)
    if limit.keep <= rare.full_at(limit) then
      limit.keep = 0
    end
  end

  -- Puts n tokens back, as far as there is room.
  function rare.give(limit, n)
    forget_keep(limit)
    local level = math.min(limit.level + math.min(n, limit.capacity) * limit.unit, room(limit, held(limit)))
    limit.level = math.max(limit.level, level)
  end

  -- Ends the hold with a ticket in every limit that has it: `back` tokens come back. Returns whether any has.
  function rare.finish(limits, ticket, back)
    local ended = false
    for _, limit in ipairs(limits) do
      for i, hold in ipairs(limit.holds or {}) do
        if hold.ticket == ticket then
          forget_keep(limit)
          table.remove(limit.holds, i)
          rare.give(limit, back)
          ended = true
          break
        end
      end
    end
    return ended
  end

  -- Holds tokens of every limit, behind what ends no later.
  function rare.hold(limits, tokens, at, ticket)
    for _, limit in ipairs(limits) do
      limit.holds = limit.holds or {}
      local i = #limit.holds
      while i > 0 and limit.holds[i].at > at do
        i = i - 1
      end
      table.insert(limit.holds, i + 1, { tokens = tokens, at = at, ticket = ticket })
    end
  end

  -- When n tokens of every limit are there, not before those that were reserved earlier; and whether they can
  -- be promised
  function rare.promise(limits, n)
    local due, granted = now, true
    for _, limit in ipairs(limits) do
      local need, holds = n * limit.unit, limit.holds or {}
      due = math.max(due, math.min(FOREVER, now + rare.wait(limit, need)))
      for _, hold in ipairs(holds) do
        if hold.ticket < FIRST_LEASE and hold.at > due then
          due = hold.at
        end
      end
      granted = granted and limit.level - need >= -MAX_DEBT and #holds < MAX_HOLDS
    end
    return due, granted
  end

  -- How many tokens a lease gets: half of what every limit has left at most
  function rare.extra(limits, extra)
    for _, limit in ipairs(limits) do
      extra = math.min(extra, math.floor(math.floor(limit.level / limit.unit) / 2))
      if limit.holds and #limit.holds >= MAX_HOLDS then
        return 0
      end
    end
    return math.max(0, extra)
  end

  return rare
end

-- A limit's tokens (as stored), level, at, keep and holds are those of the key that is being decided.
local function parse(packed)
  local limits, from = {}, 1
  for i = 1, #packed / LIMIT_SIZE do
    local tag, aligned, capacity, unit, gain, step = unpack(LIMIT, packed, from)
    limits[i] = {
      tag = tag, aligned = aligned == 1, capacity = capacity, unit = unit, gain = gain, step = step,
      full = capacity * unit, tokens = 0, level = 0, at = 0, keep = 0,
    }
    from = from + LIMIT_SIZE
  end
  return limits
end

-- Gives each limit its stored tokens. Returns false when state is not a record for each of them, which is rare.
local function read(limits, state)
  if #state ~= #limits * RECORD_SIZE then
    return false
  end
  for i = 1, #limits do
    local limit = limits[i]
    local tag, tokens, at, keep = unpack(RECORD, state, (i - 1) * RECORD_SIZE + 1)
    if tag ~= limit.tag or not (tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER and keep < FOREVER) then
      return false
    end
    limit.tokens, limit.at, limit.keep = tokens, at, keep
  end
  return true
end

-- The same for any state: limits that it does not have get nil, for they start full. Returns an error when
-- state is none of this script's; or else nil, the records of other limits, as when two versions of a policy
-- are in use at once: they are kept as long as they matter, so that neither forgets what the other's limits
-- lost, and until when that is; and whether there are holds.
local function arrange(limits, state)
  local own, held = {}, false
  for _, limit in ipairs(limits) do
    limit.tokens, limit.holds = nil, nil
    own[limit.tag] = limit
  end
  local seen, others, kept, keeps, n = {}, {}, false, 0, 0
  local last, sum, before -- the limit whose records are read; what is held of it, and the last hold's end
  for from = 1, #state, RECORD_SIZE do
    local tag, tokens, at, keep = unpack(RECORD, state, from)
    if not (tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER and keep < FOREVER) then -- NaN fails it too
      return 'is not a rate limit state'
    end
    local limit = own[tag]
    if tag == last then
      sum = sum + tokens
      if tokens < 1 or tokens % 1 ~= 0 or sum > FOREVER or at < before or keep == 0 then
        return 'is not a rate limit state'
      end
      before = at
      if limit then
        limit.holds = limit.holds or {}
        limit.holds[#limit.holds + 1] = { tokens = tokens, at = at, ticket = keep }
        held = true
      end
    elseif seen[tag] or tag == 0 then
      return 'is not a rate limit state'
    else
      seen[tag], last, sum, before = true, tag, 0, 0
      kept = not limit and keep > now
      if limit then
        limit.tokens, limit.at, limit.keep = tokens, at, keep
      elseif kept then
        n = n + 1
        keeps = math.max(keeps, keep)
      end
    end
    if kept then
      others[#others + 1] = state:sub(from, from + RECORD_SIZE - 1)
    end
  end
  if n > MAX_OTHERS then
    return 'is in use under more than 256 limits'
  end
  return nil, table.concat(others), keeps, held
end

-- Decides one key. Returns '+' or '-' and the records of its limits; or '!', an error, and whether that
-- says more of the server than of the key.
local function decide(key, limits, action, n, more, ticket, ends, back)
  local state = pcall('GET', key)
  local others, keeps, held = '', 0, false
  if not state then
    for i = 1, #limits do
      limits[i].tokens = nil
    end
  elseif not read(limits, state) then
    if type(state) == 'table' then
      return '!', state.err, not state.err:find('^WRONGTYPE')
    end
    local mistake = (#state == 0 or #state % RECORD_SIZE > 0) and 'is not a rate limit state'
    if not mistake then
      mistake, others, keeps, held = arrange(limits, state)
    end
    if mistake then
      return '!', mistake
    end
  end

  -- Refill. A limit that was not used yet starts full, and its steps begin here.
  local write = false
  for i = 1, #limits do
    local limit = limits[i]
    if not limit.tokens then
      limit.level, limit.at, limit.keep, limit.holds = limit.full, now, 0, nil
    else
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
      if at > now then -- the clock stepped back: nothing refills, and what was to last lasts as long as it would
        local step = limit.aligned and limit.step or 1
        limit.keep = limit.keep - (at - at % step) + (now - now % step)
        for _, hold in ipairs(held and limit.holds or {}) do
          hold.at = hold.at - (at - now)
        end
        at, write = now, true
      end
      if held and limit.holds then
        level, at = holding().refill(limit, level, at)
      else
        limit.holds = nil
        level, at = refill(limit.full, limit, level, at, now)
      end
      if limit.keep <= now then -- it was full under the limits that wrote it
        level = limit.full
      end
      limit.level, limit.at = level, at
    end
  end

  if held and ends > 0 and holding().finish(limits, ends, back) then
    write = true
  end

  -- Check and take, or give back.
  local allowed, due, extra = true, now, 0
  if action == TAKE or action >= RESERVE then
    local there = not held
    for i = 1, #limits do
      local limit = limits[i]
      if n > limit.capacity then
        allowed = false
      elseif limit.level < n * limit.unit then
        there = false
        allowed = allowed and (action == RESERVE or action == AWAIT)
      end
    end
    if allowed and not there and (action == RESERVE or action == AWAIT) then
      due, allowed = holding().promise(limits, n)
      allowed = allowed and due - now <= more
    end
    if allowed and n > 0 then
      write = true
      for i = 1, #limits do
        local limit = limits[i]
        limit.level = limit.level - n * limit.unit
      end
      if action == LEASE then
        extra = holding().extra(limits, more)
        if extra > 0 then
          for i = 1, #limits do
            local limit = limits[i]
            limit.level = limit.level - extra * limit.unit
          end
          holding().hold(limits, extra, now + LEASE_LIFE, ticket)
          held = true
        end
      elseif action == RESERVE or action == AWAIT and due > now then
        holding().hold(limits, n, due, ticket)
        held = true
      end
    end
  elseif action == REFUND and state then
    write = true
    for i = 1, #limits do
      holding().give(limits[i], n)
    end
  end

  -- Store and answer.
  local stored, answer, last = '', '', keeps
  for i = 1, #limits do
    local limit = limits[i]
    local keep = limit.keep
    if write then
      local full
      if held then
        full = holding().full_at(limit)
      else
        full = now + wait(limit, limit.level, limit.at, limit.full)
        if full >= FOREVER then
          full = FOREVER - 1
        end
      end
      if full > keep then
        keep = full
      end
      if keep > last then
        last = keep
      end
    end
    local record = pack(RECORD, limit.tag, limit.level / limit.unit, limit.at, keep)
    answer = i == 1 and record or answer .. record
    if held then
      stored = stored .. record
      for _, hold in ipairs(limit.holds or {}) do
        stored = stored .. pack(RECORD, limit.tag, hold.tokens, hold.at, hold.ticket)
      end
    end
  end
  if write then
    local ttl = (last - now) / 1000
    ttl = ttl + -ttl % 1 + MARGIN
    if ttl < MAX_INT then
      ttl = format('%d', ttl)
    end
    local set = pcall('SET', key, (held and stored or answer) .. others, 'PX', ttl)
    if set.err then
      return '!', set.err, true
    end
  end
  if action >= RESERVE then
    answer = answer .. pack(NUMBER, action == LEASE and extra or due)
  end
  if not held then
    return allowed and '+' or '-', answer
  end
  for i = 1, #limits do
    local limit = limits[i]
    local retry, need = 0, allowed and 1 or n
    if need <= limit.capacity then
      retry = holding().wait(limit, need * limit.unit)
    end
    answer = answer .. pack(PAIR, retry, holding().wait(limit, limit.full))
  end
  return allowed and 'a' or 'd', answer
end

local keys, requests = KEYS, ARGV[2]
local lists = {} -- parsed when first used: the keys of a call mostly share their limits
local reply = { pack(NUMBER, now) }
local refused, from = 0, 1
for i = 1, #keys do
  local list, action, n = unpack(REQUEST, requests, from)
  from = from + REQUEST_SIZE
  local more, ticket, ends, back = 0, 0, 0, 0
  local ending = action >= ENDS
  if ending then
    action = action - ENDS
  end
  if action >= RESERVE then
    more, ticket = unpack(PAIR, requests, from)
    from = from + PAIR_SIZE
  end
  if ending then
    ends, back = unpack(PAIR, requests, from)
    from = from + PAIR_SIZE
  end
  local limits = lists[list]
  if not limits then
    limits = parse(ARGV[3 + list])
    lists[list] = limits
  end
  local sign, answer, refusal = decide(keys[i], limits, action, n, more, ticket, ends, back)
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
