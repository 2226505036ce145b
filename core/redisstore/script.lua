-- Token buckets, decided for many keys in one call. This script and the Go package core/internal/bucket compute the same:
-- change them together. The usual requests are decided first, in one piece. What follows decides all others.
--
--   level = min(full, level + floor((now - at) / step) * gain)        refill
--   allowed if every limit has level >= n * unit                      check
--   level = level - n * unit                                          take
--
-- All numbers are whole and below 2^53, so these doubles are exact. A token is `unit` units.
--
-- KEYS[i]   state of one (policy, key): the records of its limits
-- ARGV[1]   requests: for how many of KEYS, how many limits follow (none: those of the request before), action, n, and how
--           many times; all but take are for one key and one time. Then, if limits follow, for each of them tag, steps,
--           aligned, capacity, unit, gain, step, and its fill. Then, of reserve and the actions above it, more and ticket;
--           of an action with ENDS the ticket of the hold that ends, and how many tokens come back; of one with EACH the n
--           of each limit. One with JOINT belongs together with the next request: all take, or none does. The last of them has
--           EACH. One to take with DRY only finds out whether there are tokens
-- ARGV[2]   now in µs since 1970; without it, or if it is '', this server's clock counts
-- ARGV[3]   calendars: for each limit that is aligned to one the most units that it may owe, how many periods follow, and
--           when each of them begins, in the order in which these limits follow in ARGV[1]
--
-- Returns one string: what was written, if it is the records of a single key and every time was allowed. Otherwise now,
-- then an answer for each key. An answer is
--   '+' or '-' (allowed or denied), and the record of each limit, refilled to now
--   then, to reserve and await, when the tokens are due; to lease, how many tokens are on it
--   or 'a' and 'd' for '+' and '-', and at the end two waits for each limit, in µs: for n (if allowed, for one more),
--     and until it is full. They are there if they do not follow from the levels, as while tokens are held
--   or '!', the length of an error, and the error: why this key was not decided
--   or '?': nothing was done, for it takes periods of a calendar that were not sent
-- To several times it is either '*', how many of them were allowed, which are the first, and the records after that; or an
-- answer to each.
-- The error of one key leaves the others alone. If the server refuses all keys, its error is the reply.

-- A limit's record is its level: tag, steps, tokens, the instant of the write, the step until which it matters, and the
-- definition's capacity and pace. The record of an earlier definition may follow, in the same form (see older.go), and then
-- the holds, in the order of their ends: tag, 0, tokens, end, ticket, 0, 0.
local RECORD, RECORD_SIZE = '>I4I2dI7I7ff', 36
local LIMIT, LIMIT_SIZE = '>I4I2Bddddff', 47
local REQUEST, REQUEST_SIZE = '>I2I2BdI2', 15
local PAIR, PAIR_SIZE = '>dd', 16
local NUMBER, NUMBER_SIZE, ERROR, COUNT = '>d', 8, '>I2c0', '>I2'
local TAKE, REFUND, RESERVE, AWAIT, LEASE, AT_MOST = 0, 1, 3, 4, 5, 6 -- 2 is END: it ends a hold and does nothing else
local DRY, JOINT, EACH, ENDS = 8, 32, 64, 128
local CALENDAR = 2 -- what `aligned` is then
local LEASE_LIFE, FIRST_LEASE, AT_ONCE = 2000000, 2 ^ 52, 2 ^ 51
local MAX_DEBT = 2 ^ 51 - 1
local FOREVER = 2 ^ 53
local LATEST = 2 ^ 52 -- in 2112. The sum of a later instant and a wait would not be whole
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS, MAX_HOLDS, MAX_PERIODS = 256, 4096, 4096
local MARGIN = 1000 -- ms that state outlives the moment it no longer matters, at least
local GRAIN = 2000000 -- µs: that moment is rounded up to a multiple of it, so most writes of a busy key keep its TTL.
local FINE, COARSER = 64, 8 -- If it is more than 64 grains ahead, of one 8 times as long; and so on
local MAX_INT = 2 ^ 31 -- below it '%d' is right on any server, and cheaper than how Redis writes a number

-- A call costs more than a sum here, and so does making a function, which every run does anew. So x - x % 1 stands for
-- floor(x), x + -x % 1 for ceil(x), and comparisons for min and max.
local values = unpack -- of a table
local pack, unpack, format = struct.pack, struct.unpack, string.format
local pcall = redis.pcall -- errors are answers

local now = ARGV[2] and tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  if now < 0 or now > LATEST then
    return { err = 'ERR the clock of this server is not between 1970 and 2112' }
  end
end

local keys, requests = KEYS, ARGV[1]
local answers = keys[2] and {} -- to a single request the answer is returned at once
local others -- the requests that are not usual: for each its key's place, its own in ARGV[1], and that of its limits
local from, at_limits = 1
local same, limits, action, n, times = 0 -- the request, which is that of so many more keys
-- Its only limit, or the last
local tag, hash, aligned, capacity, unit, gain, step, most, pace
local parsed, levels, ats -- of each limit, if there are several
for i = 1, #keys do
  local key = keys[i]
  local state = pcall('GET', key)
  if same > 0 then
    same = same - 1
  else
    local follow
    same, follow, action, n, times = unpack(REQUEST, requests, from)
    same, from = same - 1, from + REQUEST_SIZE
    if follow > 0 then
      limits, at_limits = follow, from
      if limits == 1 then
        tag, hash, aligned, capacity, unit, gain, step, most, pace = unpack(LIMIT, requests, from)
      else
        parsed, levels, ats = {}, {}, {}
        for j = 1, limits do
          parsed[j] = { unpack(LIMIT, requests, from + (j - 1) * LIMIT_SIZE) }
        end
      end
      from = from + limits * LIMIT_SIZE
    end
  end

  -- The usual request is to take, of limits that wrote all of the key's state themselves, or of a key without state (see
  -- usual.go). sign becomes nil for any other request.
  local sign, level, at, kept, since, allowed = '+', nil, nil, 0, 0, times
  if action ~= TAKE or state and #state ~= limits * RECORD_SIZE then
    sign = nil
  else
    for j = 1, limits do
      if limits > 1 then
        tag, hash, aligned, capacity, unit, gain, step, most, pace = values(parsed[j])
      end
      local full = capacity * unit
      level, at = full, now -- a limit that was not used yet starts full, and its steps begin here
      if state then
        local tag_, hash_, tokens, written, keep, most_, pace_ = unpack(RECORD, state, (j - 1) * RECORD_SIZE + 1)
        if tag_ ~= tag or hash_ ~= hash or most_ ~= most or pace_ ~= pace or written > now
          or not (tokens <= capacity and tokens >= -MAX_DEBT / unit and keep < FOREVER) or gain > full then
          sign = nil
          break
        end
        if keep > kept then
          kept = keep
        end
        if written > since then
          since = written
        end
        if keep > now then -- else it is full, as if it was not used yet
          -- Refill. Tokens come back as the units they were, whatever the division has rounded.
          level = tokens * unit
          if level % 1 ~= 0 then
            level = level + (level < 0 and -level or level) * ROUNDING_ERROR
            level = level - level % 1
          end
          at = written - (aligned == 1 and written or written - keep) % step -- keep is one of its steps
          local steps = (now - at) / step
          steps = steps - steps % 1
          level = level + steps * gain
          at = aligned == 1 and now or at + steps * step
          if level >= full then -- then its steps begin with its next use
            level, at = full, now
          end
        end
      end
      -- Check. Of several times the first are allowed, as many as the level has tokens for.
      if level < n * unit * allowed then
        sign = '-'
        if level < n * unit then
          allowed = 0
        else
          allowed = level / (n * unit)
          allowed = allowed - allowed % 1
          if allowed * n * unit > level then -- the quotient was rounded up
            allowed = allowed - 1
          end
        end
      end
      if limits > 1 then
        levels[j], ats[j] = level, at
      end
    end
  end

  if sign then
    local answer
    local write, last = allowed > 0 and n > 0, now
    for j = 1, limits do
      if limits > 1 then
        tag, hash, aligned, capacity, unit, gain, step, most, pace = values(parsed[j])
        level, at = levels[j], ats[j]
      end
      local record
      if write then
        -- Take, and find the step with which the limit is full again.
        level = level - n * unit * allowed
        local steps = (capacity * unit - level) / gain
        at = aligned == 1 and at - at % step or at
        local keep = at + (steps + -steps % 1) * step
        if keep >= FOREVER then -- the last step that can be stored
          keep = FOREVER - 1 - (FOREVER - 1 - at) % step
        end
        if keep > last then
          last = keep
        end
        record = pack(RECORD, tag, hash, level / unit, now, keep, most, pace)
      else
        record = pack(RECORD, tag, hash, level / unit, at, at, most, pace)
      end
      answer = answer and answer .. record or record
    end
    -- Store what is answered. The key lives until what was stored no longer mattered, rounded up; most writes need no more.
    if write then
      local set -- how long the state is, OK, or a table with an error
      local grain, before = GRAIN, GRAIN
      while last - now > FINE * grain do
        grain = COARSER * grain
      end
      while kept - since > FINE * before do
        before = COARSER * before
      end
      last = last - last % grain + grain
      if state and last <= kept - kept % before + before then
        set = pcall('SETRANGE', key, '0', answer) -- SET with KEEPTTL, but faster: what was there is as long
      else
        local ttl = (last - now) / 1000
        ttl = ttl + -ttl % 1 + MARGIN
        if ttl < MAX_INT then
          ttl = format('%d', ttl)
        end
        set = pcall('SET', key, answer, 'PX', ttl)
      end
      if set ~= #answer and set.err then
        sign = nil
      end
    end
    if sign then
      if not answers and write and allowed == times then
        return answer
      end
      if times > 1 then
        sign = '*' .. pack(COUNT, allowed)
      end
      if not answers then
        return pack(NUMBER, now) .. sign .. answer
      end
      answers[2 * i - 1], answers[2 * i] = sign, answer
    end
  end

  if not sign then
    if answers then
      answers[2 * i - 1], answers[2 * i] = '', '' -- for now
    end
    others = others or {}
    others[#others + 1] = { key = i, limits = limits, at_limits = at_limits, action = action, n = n, times = times, from = from }
    local rest = action -- without its flags
    if rest >= ENDS then
      rest, from = rest - ENDS, from + PAIR_SIZE
    end
    if rest >= EACH then
      rest, from = rest - EACH, from + limits * NUMBER_SIZE
    end
    if rest % DRY >= RESERVE then
      from = from + PAIR_SIZE
    end
  end
end

-- Functions cost more than a decision, so none is made unless it is needed.
if not others then
  return pack(NUMBER, now) .. table.concat(answers)
end

-- What a step brings to a level of which `out` tokens are held: no more than what fills the bucket, also when a debt is
-- paid for which no tokens are held any more
local function gain_to(limit, level, out)
  if limit.gain > limit.full and -level > out * limit.unit then
    return limit.full
  end
  return limit.gain
end

-- The calendars of limits that are aligned to one, as far as they were sent. What is not in them is asked for: `missing`
-- says so, and then nothing may be stored.
local missing = false

-- The period that an instant is in, counted from the first that was sent
local function period(limit, at)
  local starts, low = limit.starts, 1
  local high = #starts
  if at < starts[1] or at >= starts[high] then
    missing = true
    return 1
  end
  while high - low > 1 do
    local middle = (low + high - (low + high) % 2) / 2
    if starts[middle] <= at then
      low = middle
    else
      high = middle
    end
  end
  return low
end

-- When a period begins
local function start(limit, number)
  local starts = limit.starts
  local at = starts[number]
  if not at then
    missing = missing or number < 1 or starts[#starts] < FOREVER
  end
  return at or FOREVER
end

-- The same point of a period some periods before that of an instant, or its end if it is shorter
local function earlier(limit, at, periods)
  local number = period(limit, at)
  return math.min(start(limit, number - periods) + at - start(limit, number), start(limit, number - periods + 1) - 1)
end

-- The step that an instant is in: one of a refilled level, or any if the limit is aligned
local function step_at(limit, at)
  if limit.starts then
    return start(limit, period(limit, at))
  end
  return limit.aligned and at - at % limit.step or at
end

-- How many steps end after an instant and until another one, not before it; and the last of them
local function steps_between(limit, at, to)
  if limit.starts then
    return period(limit, to) - period(limit, at), to
  end
  at = step_at(limit, at)
  local steps = (to - at) / limit.step
  steps = steps - steps % 1
  return steps, limit.aligned and to or at + steps * limit.step
end

-- Refills a level at `at` to an instant not before it, in a bucket with so much room, of which `out` tokens are held
local function refill(room, limit, level, at, to, out)
  local gain = limit.gain
  if gain > limit.full then
    gain = gain_to(limit, level, out)
  end
  local steps
  steps, at = steps_between(limit, at, to)
  level = level + steps * gain
  if level >= room then
    return room, room == limit.full and to or at -- the steps of a full bucket begin with its next use
  end
  return level, at
end

-- µs until a refilled level has `need` units, if there is room for them
local function wait(limit, level, at, need, out)
  if level >= need then
    return 0
  end
  local gain = limit.gain
  if gain > limit.full then
    gain = gain_to(limit, level, out)
  end
  local steps = (need - level) / gain
  steps = steps + -steps % 1
  if limit.starts then
    return math.min(FOREVER, start(limit, period(limit, at) + steps) - now)
  end
  if steps * limit.step > FOREVER then
    return FOREVER
  end
  return steps * limit.step - (now - step_at(limit, at))
end

-- The step with which a refilled limit is full, if that takes so many µs
local function full_at(limit, micros)
  if limit.level < limit.full then
    return now + micros
  end
  return step_at(limit, limit.at)
end

-- What only holds and refunds need is made for the first that comes: see hold.go. The holds of a limit are lists of
-- their tokens, ends and tickets. Those before `first` are over. `held` is the sum of the tokens. `raw` is the holds as
-- they are stored: changing it is faster than packing all of them.
local rare
local function holding()
  if rare then
    return rare
  end
  rare = {}

  -- How much the level can be while `out` tokens are held
  local function room(limit, out)
    return math.max(limit.full - out * limit.unit, -limit.deepest)
  end

  function rare.holds()
    return { tokens = {}, at = {}, ticket = {}, first = 1, held = 0, raw = '' }
  end

  -- Whether a hold holds its tokens at an instant. In the microsecond in which a reservation is due, its tokens are used
  -- after all else. A reservation that was due when it was made is used already, though it may be cancelled.
  local function holds_at(holds, i, at)
    return holds.at[i] > at or holds.at[i] == at and (holds.ticket[i] < AT_ONCE or holds.ticket[i] >= FIRST_LEASE)
  end

  local function sum(holds, at)
    local held = 0
    for i = holds.first, #holds.at do
      if holds_at(holds, i, at) then
        held = held + holds.tokens[i]
      end
    end
    return held
  end

  -- Adds a hold behind the i-th.
  function rare.insert(limit, i, tokens, at, ticket)
    local holds = limit.holds
    table.insert(holds.tokens, i + 1, tokens)
    table.insert(holds.at, i + 1, at)
    table.insert(holds.ticket, i + 1, ticket)
    if holds_at(holds, i + 1, now) then
      holds.held = holds.held + tokens
    end
    local split = (i + 1 - holds.first) * RECORD_SIZE
    holds.raw = holds.raw:sub(1, split) .. pack(RECORD, limit.tag, 0, tokens, at, ticket, 0, 0) .. holds.raw:sub(split + 1)
  end

  local function remove(holds, i)
    if holds_at(holds, i, now) then
      holds.held = holds.held - holds.tokens[i]
    end
    table.remove(holds.tokens, i)
    table.remove(holds.at, i)
    table.remove(holds.ticket, i)
    local before = (i - holds.first) * RECORD_SIZE
    holds.raw = holds.raw:sub(1, before) .. holds.raw:sub(before + RECORD_SIZE + 1)
  end

  -- Adds a hold behind those that end no later.
  local function add(limit, tokens, at, ticket)
    local i = #limit.holds.at
    while i >= limit.holds.first and limit.holds.at[i] > at do
      i = i - 1
    end
    rare.insert(limit, i, tokens, at, ticket)
  end

  -- Moves the holds of a limit back: reservations that wait for a step by some steps, or periods of a calendar, and all
  -- others by as much as the clock.
  function rare.move(limit, steps, periods, back)
    local before = limit.holds
    limit.holds = rare.holds()
    for i, at in ipairs(before.at) do -- none is over yet
      if before.ticket[i] >= AT_ONCE then
        at = at - back
      elseif limit.starts then
        at = math.max(at - back, earlier(limit, at, periods))
      else
        at = at - steps
      end
      add(limit, before.tokens[i], at, before.ticket[i])
    end
  end

  -- How much the level can be now
  function rare.room(limit)
    return room(limit, sum(limit.holds, now))
  end

  -- refill of a bucket with holds, of which those until `written` are counted
  function rare.refill(limit, level, at, written)
    local holds, i = limit.holds, 1
    local out = sum(holds, written)
    while holds.at[i] and holds.at[i] < now do
      if holds_at(holds, i, written) then
        level, at = refill(room(limit, out), limit, level, at, holds.at[i], out)
        out = out - holds.tokens[i]
      end
      i = i + 1
    end
    out = sum(holds, now)
    return refill(room(limit, out), limit, level, at, now, out)
  end

  -- Forgets the holds that ended before now.
  function rare.prune(limit)
    local holds, i = limit.holds, 1
    while holds.at[i] and holds.at[i] < now do
      i = i + 1
    end
    holds.first, holds.raw = i, holds.raw:sub((i - 1) * RECORD_SIZE + 1)
    holds.held = sum(holds, now)
  end

  -- wait in a bucket with holds: as long as they leave no room, no tokens come.
  function rare.wait(limit, need)
    local level, at, holds = limit.level, limit.at, limit.holds
    if level >= need or not holds then
      return wait(limit, level, at, need, 0)
    end
    local out, tokens, ends = holds.held, holds.tokens, holds.at
    local full, unit, step, gain = limit.full, limit.unit, limit.step, limit.gain
    local from = step_at(limit, at)
    for i = holds.first, limit.starts and 0 or #ends do
      -- The level at the end of this hold if there is room until then, as there mostly is
      local steps = (ends[i] - from) / step
      local units = level + (steps - steps % 1) * gain
      if units > full - out * unit or gain > full then
        break
      elseif units >= need then
        return wait(limit, level, at, need, 0)
      end
      if holds_at(holds, i, now) then
        out = out - tokens[i]
      end
      if i == #ends then
        return math.min(FOREVER, wait(limit, level, at, need, 0))
      end
    end
    out = holds.held
    for i = holds.first, #ends do
      if holds_at(holds, i, now) then
        if need <= room(limit, out) and now + wait(limit, level, at, need, out) <= ends[i] then
          break
        end
        level, at = refill(room(limit, out), limit, level, at, ends[i], out)
        out = out - tokens[i]
      end
    end
    return math.min(FOREVER, wait(limit, level, at, need, out))
  end

  -- full, or the first step after it that is not before the end of the last hold: the record matters as long as any
  -- tokens are held.
  function rare.outlast(limit, full)
    local holds = limit.holds
    local last = holds and #holds.at >= holds.first and holds.at[#holds.at] or 0
    if last <= now or last + 1 <= full then
      return full
    elseif limit.starts then
      return math.min(last + 1, FOREVER - 1)
    end
    local steps = math.ceil((math.min(last + 1, FOREVER - 1) - full) / limit.step)
    if full + steps * limit.step >= FOREVER then
      steps = math.floor((FOREVER - 1 - full) / limit.step)
    end
    return full + steps * limit.step
  end

  -- Uses up to `tokens` of the reservations that were due at once. A refund in the same microsecond comes after they
  -- were used, so these tokens can't come back a second time when the reservation is cancelled.
  function rare.use_now(limit, tokens)
    local holds = limit.holds
    local i = holds and holds.first or 1
    while holds and tokens > 0 and i <= #holds.at do
      if holds_at(holds, i, now) then
        i = i + 1
      else
        local left, at, ticket = holds.tokens[i] - tokens, holds.at[i], holds.ticket[i]
        tokens = -left
        remove(holds, i)
        if left > 0 then
          rare.insert(limit, i - 1, left, at, ticket)
        end
      end
    end
  end

  -- Puts n tokens back, as far as there is room. A record that stays beside the limit's gets all of them.
  function rare.give(limit, n)
    local level = limit.level
    limit.level = math.max(level, math.min(level + n * limit.unit, room(limit, limit.holds and limit.holds.held or 0)))
    limit.lost = limit.lost + (n - (limit.level - level) / limit.unit)
  end

  -- Ends the hold with a ticket in every limit that has it, and puts `back` of its tokens back. Returns whether any
  -- limit had it.
  function rare.finish(limits, ticket, back)
    local ended = false
    for _, limit in ipairs(limits) do
      local holds = limit.holds
      for i = holds and holds.first or 1, holds and #holds.at or 0 do
        if holds.ticket[i] == ticket or holds.ticket[i] == ticket + AT_ONCE then
          local tokens = holds.tokens[i]
          remove(holds, i)
          rare.give(limit, math.min(tokens, back))
          ended = true
          break
        end
      end
    end
    return ended
  end

  -- Holds tokens of every limit that n counts for: as many, or n.
  function rare.hold(limits, tokens, at, ticket)
    for _, limit in ipairs(limits) do
      if limit.n > 0 then
        limit.holds = limit.holds or rare.holds()
        add(limit, tokens or limit.n, at, ticket)
      end
    end
  end

  -- When the n tokens of every limit are there, and not before those that were reserved earlier; and whether they can be
  -- promised
  function rare.promise(limits)
    local due, granted = now, true
    for _, limit in ipairs(limits) do
      local need, holds = limit.n * limit.unit, limit.holds or rare.holds()
      due = math.max(due, math.min(FOREVER, now + rare.wait(limit, need)))
      local i = #holds.at
      while i >= holds.first and holds.ticket[i] >= FIRST_LEASE do
        i = i - 1
      end
      if i >= holds.first then
        due = math.max(due, holds.at[i])
      end
      granted = granted and limit.level - need >= -limit.deepest and #holds.at - holds.first + 1 < MAX_HOLDS
    end
    return due, granted
  end

  -- How many tokens are taken beyond n: as many as every limit has left, or half of that for a lease
  function rare.extra(limits, extra, lease)
    for _, limit in ipairs(limits) do
      if limit.n > 0 then
        local left = math.floor(limit.level / limit.unit)
        if lease then
          left = math.floor(left / 2)
          if limit.holds and #limit.holds.at - limit.holds.first + 1 >= MAX_HOLDS then
            return 0
          end
        end
        extra = math.min(extra, left)
      end
    end
    return math.max(0, extra)
  end

  -- What a level becomes if n tokens are taken from it, whether or not they are there
  function rare.owing(limit, n)
    return math.max(-limit.deepest, limit.level - n * limit.unit)
  end

  return rare
end

-- The level's record at a place of the state; nil if this script did not write it
local function read_record(state, from)
  local tag, hash, tokens, at, keep, most, pace = unpack(RECORD, state, from)
  if tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER and keep < FOREVER
    and most >= 0 and most <= FOREVER and pace >= -FOREVER and pace <= FOREVER then -- NaN fails it
    return { tag = tag, hash = hash, tokens = tokens, at = at, keep = keep, most = most, pace = pace }
  end
end

-- When a bucket that a record describes is full under its own definition
local function until_full(record)
  local pace = math.abs(record.pace)
  local micros = (record.most - record.tokens) * pace
  if record.pace < 0 then
    micros = micros + record.most * pace
  end
  return math.min(FOREVER - 1, record.at + math.ceil(math.max(0, math.min(FOREVER, micros))))
end

-- How many tokens a limit has left when as many are used as a record says
local function left(limit, record)
  if record.most == limit.most then
    return record.tokens
  end
  return limit.capacity - (record.most - record.tokens)
end

-- A product of tokens and units, rounded down. The margin is what rounding may have taken.
local function floor_units(units)
  units = units + math.abs(units) * ROUNDING_ERROR
  return units - units % 1
end

-- The level that follows from a record, at the instant of its write or the last step before. A lower Capacity makes no
-- debt. Steps that the record was written in go on; another definition's begin with the write.
local function level_of(limit, record)
  local level, at = floor_units(math.max(left(limit, record), math.min(record.tokens, 0)) * limit.unit), record.at
  level = math.max(-limit.deepest, math.min(level, limit.full))
  if not limit.aligned and record.hash == limit.hash then
    at = at - (at - record.keep) % limit.step
  end
  return level, at
end

-- The level at now that follows from a record, which matters until then. What is full is as if it was not used yet.
local function since(limit, record, matters)
  if matters <= now then
    return limit.holds and holding().room(limit) or limit.full, now
  end
  local level, at = level_of(limit, record)
  if limit.holds then
    return holding().refill(limit, level, at, record.at)
  end
  return refill(limit.full, limit, level, at, now, 0)
end

-- So many tokens of a record in units, after the limit has refilled since the record was written; how many steps that were,
-- and the last of them
local function left_after(limit, record, tokens)
  local _, at = level_of(limit, record)
  local steps
  steps, at = steps_between(limit, at, now)
  local most = 2 ^ 52
  return math.max(-most, math.min(most, floor_units(tokens * limit.unit))) + math.min(most, steps * limit.gain), steps, at
end

-- The record that must stay beside one of limit.level: of the last one and that beside it, the one that says that most is
-- used, if that is more than the level says. If the limit refills no slower than the record's definition, what it has
-- refilled is added.
local function deeper(limit)
  local kept, least = nil, limit.level
  for i = 1, 2 do
    local record = i == 1 and limit.last.keep > now and limit.last or i == 2 and limit.older
    if record then
      local units, steps, at = left_after(limit, record, left(limit, record))
      if units < least then
        least = units
        kept = { tag = record.tag, hash = record.hash, tokens = record.tokens, at = math.min(record.at, now), keep = record.keep,
          most = record.most, pace = record.pace }
        if math.abs(limit.pace) <= math.abs(record.pace) then
          kept.tokens, kept.at = math.min(record.tokens + steps * limit.gain / limit.unit, record.most), math.min(at, now)
        end
      end
    end
  end
  return kept
end

-- Gives each limit what is stored of it: its records, until when they matter, holds; nil if it was not used yet. Returns an
-- error if this script did not write the state, or else nil, and then: the records of other limits, until when they
-- matter, and whether there are holds. Other limits are kept as long as they matter: when two versions of a policy are
-- in use at once, neither forgets what the other's limits lost.
local function arrange(limits, state)
  local own, held = {}, false
  for _, limit in ipairs(limits) do
    own[limit.tag] = limit
  end
  local seen, others, keeps, n = {}, {}, 0, 0
  local from, size = 1, #state
  while from <= size do
    local last, first = read_record(state, from), from
    if not last or seen[last.tag] or last.tag == 0 then
      return 'is not a rate limit state'
    end
    local tag, older = last.tag
    seen[tag] = true
    local limit = own[tag]
    local list, ends, tickets, count, sum, before = {}, {}, {}, 0, 0, 0
    from = from + RECORD_SIZE
    if from <= size then
      older = read_record(state, from)
      if not older then
        return 'is not a rate limit state'
      elseif older.tag ~= tag or older.pace == 0 then
        older = nil -- another limit, or a hold
      else
        from = from + RECORD_SIZE
      end
    end
    local matters, held_from = last.keep, from
    if older then
      matters = math.max(matters, until_full(older))
    end
    while from <= size do
      local same, nothing, more, ended, ticket, none, zero = unpack(RECORD, state, from)
      if same ~= tag then
        break
      end
      sum = sum + more
      if not (more >= 1 and sum <= FOREVER and ended < FOREVER and ticket < FOREVER) or more % 1 ~= 0 or ended < before
        or ticket == 0 or nothing ~= 0 or none ~= 0 or zero ~= 0 then
        return 'is not a rate limit state'
      end
      count, before = count + 1, ended
      list[count], ends[count], tickets[count] = more, ended, ticket
      from = from + RECORD_SIZE
    end
    if limit then
      limit.last, limit.older = last, older
      if count > 0 then
        held = true
        limit.holds = { tokens = list, at = ends, ticket = tickets, first = 1, held = 0, raw = state:sub(held_from, from - 1) }
      end
    elseif matters > now then
      n = n + 1
      keeps = math.max(keeps, matters)
      others[n] = state:sub(first, from - 1)
    end
  end
  if n > MAX_OTHERS then
    return 'is in use under more than 256 limits'
  end
  return nil, table.concat(others), keeps, held
end

-- Decides one key by its state. Returns the sign and the rest of an answer; or '!', an error, and whether the server is
-- at fault, not the key. If dry, a request to take only finds out whether there are tokens. The sign is '?' if the
-- decision needs periods of a calendar that were not sent.
local function decide(key, state, limits, action, more, ticket, ends, back, dry)
  missing = false
  if type(state) == 'table' then
    return '!', state.err, not state.err:find('^%-?WRONGTYPE')
  end
  local others, keeps, held = '', 0, false
  for i = 1, #limits do
    limits[i].last, limits[i].older, limits[i].holds, limits[i].kept, limits[i].lost = nil, nil, nil, nil, 0
    limits[i].also = nil
  end
  if state then
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
    local record, older = limit.last, limit.older
    if not record then
      limit.level, limit.at, limit.matters = limit.full, now, 0
    else
      if record.at > now then -- the clock stepped back: nothing refills
        local _, at = level_of(limit, record)
        local last, steps, periods, by = step_at(limit, at), 0, 0, record.at - now
        if last > now then -- steps count anew
          steps = last - step_at(limit, now)
          if limit.starts then
            periods = period(limit, record.at) - period(limit, now)
            steps = 0
            if (record.keep - record.at) / limit.step < MAX_PERIODS then -- later ones may be too far away to count
              steps = record.keep - earlier(limit, record.keep, periods)
            end
          end
          record.keep = record.keep - math.min(steps, by)
        end
        if limit.holds then
          holding().move(limit, limit.aligned and by - by % limit.step or steps, periods, by)
        end
        if last > now or limit.holds then
          record.at, write = now, true
        end
      end
      limit.matters = record.keep
      if older then
        local ends = until_full(older)
        limit.matters = math.max(limit.matters, ends)
        older.at = math.min(older.at, now)
        if ends <= now then
          older = nil
        end
      end
      if older and math.abs(limit.pace) < math.abs(older.pace) then
        older.at = math.max(older.at, math.min(record.at, now)) -- the faster rate holds since the last record was written
      end
      limit.level, limit.at = since(limit, record, record.keep)
      local same = record.hash == limit.hash and record.most == limit.most and record.pace == limit.pace
      if older and not same then
        if older.hash == limit.hash and older.most == limit.most and older.pace == limit.pace then
          local level, at = since(limit, older, FOREVER)
          if at ~= limit.at and limit.level < limit.full then -- the steps of the two begin at different instants
            limit.also = { { limit.level, limit.at }, { level, at } }
            if level > limit.level - limit.gain then
              at = math.max(limit.at, at)
            end
          end
          limit.level, limit.at = math.min(limit.level, level), at
        else
          -- A third definition has what the record beside the last one leaves it, but no less than the last one had.
          local units, _, at = left_after(limit, older, left(limit, older))
          local had, _, last_at = left_after(limit, record, record.tokens)
          if at ~= limit.at or last_at ~= limit.at then
            limit.also = { { limit.level, limit.at } }
          end
          limit.level = math.max(-limit.deepest, math.min(limit.level, math.max(units, had)))
          limit.at = math.max(limit.at, at, last_at)
        end
      end
      limit.older = older
      if older or not same then
        limit.kept, limit.before = deeper(limit), limit.level
      end
      if limit.holds then
        holding().prune(limit)
      end
    end
  end

  if held and ends > 0 and holding().finish(limits, ends, back) then
    write = true
  end

  -- Check and take, or give back.
  local allowed, due, extra = true, now, 0
  if action == TAKE or action >= RESERVE then
    local there, moves = not held, false
    for i = 1, #limits do
      local limit = limits[i]
      local n = limit.n
      moves = moves or n > 0
      if n > limit.capacity then
        allowed = false
      elseif limit.level < n * limit.unit then
        there = false
        allowed = allowed and (action == RESERVE or action == AWAIT)
      end
    end
    if allowed and not there and (action == RESERVE or action == AWAIT) then
      due, allowed = holding().promise(limits)
      allowed = allowed and due - now <= more
    end
    if allowed and moves and not dry then
      write = true
      for i = 1, #limits do
        local limit = limits[i]
        limit.level = limit.level - limit.n * limit.unit
      end
      if action == LEASE or action == AT_MOST then
        extra = holding().extra(limits, more, action == LEASE)
        for i = 1, extra > 0 and #limits or 0 do
          local limit = limits[i]
          if limit.n > 0 then
            limit.level = limit.level - extra * limit.unit
          end
        end
        if extra > 0 and action == LEASE then
          holding().hold(limits, extra, now + LEASE_LIFE, ticket)
          held = true
        end
      elseif action == RESERVE or action == AWAIT and due > now then
        holding().hold(limits, nil, due, due == now and ticket + AT_ONCE or ticket)
        held = true
      end
    end
  elseif action == REFUND then
    for i = 1, #limits do
      local limit = limits[i]
      if limit.n > 0 and state then -- what was never used is full
        holding().use_now(limit, limit.n)
        holding().give(limit, limit.n)
        write = true
      elseif limit.n < 0 then
        limit.level = holding().owing(limit, -limit.n)
        write = true
      end
    end
  end

  -- Store and answer.
  local answer, last, waits = '', keeps > now and keeps or now, held
  local stored = held and {} -- levels and holds; often the answer is what is stored
  for i = 1, #limits do
    local limit = limits[i]
    local matters, tokens = limit.matters, limit.level / limit.unit
    local full = full_at(limit, held and holding().wait(limit, limit.full) or wait(limit, limit.level, limit.at, limit.full, 0))
    local record
    if full >= FOREVER then -- the last step that can be stored
      full = FOREVER - 1
      if not limit.starts then
        full = full - (full - step_at(limit, limit.at)) % limit.step
      end
    elseif full < 0 then -- a period that began before 1970
      full = 0
    end
    if write then
      if held then
        full = holding().outlast(limit, full)
      end
      if full > last then
        last = full
      end
      record = pack(RECORD, limit.tag, limit.hash, tokens, now, full, limit.most, limit.pace)
      local kept = limit.kept
      if kept then -- it is charged what the limit is charged
        kept.tokens = math.max(-FOREVER, math.min(kept.tokens - (limit.before - limit.level) / limit.unit + limit.lost, kept.most))
        local ends = until_full(kept)
        if ends > now then
          stored = stored or { answer }
          last = math.max(last, ends)
        else
          kept = nil
        end
      end
      if stored then
        stored[#stored + 1] = record
        if kept then
          stored[#stored + 1] = pack(RECORD, kept.tag, kept.hash, kept.tokens, kept.at, kept.keep, kept.most, kept.pace)
        end
        stored[#stored + 1] = limit.holds and limit.holds.raw
      end
    else
      if matters < full and matters > now or limit.also then -- another definition wrote the record, and its bucket fills earlier
        waits = true
      end
      record = pack(RECORD, limit.tag, limit.hash, tokens, limit.at, limit.at, limit.most, limit.pace)
    end
    answer = i == 1 and record or answer .. record
  end
  if missing then
    return '?', ''
  end
  if write then
    local grain = GRAIN
    while last - now > FINE * grain do
      grain = COARSER * grain
    end
    local ttl = (last - last % grain + grain - now) / 1000
    ttl = ttl + -ttl % 1 + MARGIN
    if ttl < MAX_INT then
      ttl = format('%d', ttl)
    end
    local set = pcall('SET', key, (stored and table.concat(stored) or answer) .. others, 'PX', ttl)
    if set.err then
      return '!', set.err, true
    end
  end
  if action >= RESERVE then
    answer = answer .. pack(NUMBER, (action == RESERVE or action == AWAIT) and due or extra)
  end
  if not waits then
    return allowed and '+' or '-', answer
  end
  for i = 1, #limits do
    local limit = limits[i]
    local retry, need, most = 0, allowed and 1 or limit.n, FOREVER
    if not write and limit.matters > now then
      most = limit.matters - now
    end
    local level, at, also, full = limit.level, limit.at, not write and limit.also or {}, 0
    for k = 0, #also do
      if k > 0 then
        limit.level, limit.at = also[k][1], also[k][2]
      end
      full = math.max(full, math.min(most, holding().wait(limit, limit.full)))
      if need <= limit.capacity then
        retry = math.max(retry, math.min(most, holding().wait(limit, need * limit.unit)))
      end
    end
    limit.level, limit.at = level, at
    answer = answer .. pack(PAIR, retry, full)
  end
  return allowed and 'a' or 'd', answer
end

-- Returns the limits of a request. They are parsed when a request first uses them: those of a call mostly share them.
local lists, calendar_at = {}, 1
local function limits_of(r)
  local limits = lists[r.at_limits]
  if limits then
    return limits
  end
  limits = {}
  for j = 1, r.limits do
    local tag, hash, aligned, capacity, unit, gain, step, most, pace = unpack(LIMIT, requests, r.at_limits + (j - 1) * LIMIT_SIZE)
    local limit = {
      tag = tag, hash = hash, aligned = aligned > 0, capacity = capacity, unit = unit, gain = gain, step = step,
      full = capacity * unit, most = most, pace = pace, level = 0, at = 0, deepest = MAX_DEBT,
    }
    if aligned == CALENDAR then
      local periods
      limit.deepest, periods = unpack(PAIR, ARGV[3], calendar_at)
      calendar_at = calendar_at + PAIR_SIZE
      limit.starts = {}
      for k = 1, periods do
        limit.starts[k] = unpack(NUMBER, ARGV[3], calendar_at)
        calendar_at = calendar_at + NUMBER_SIZE
      end
    end
    limits[j] = limit
  end
  lists[r.at_limits] = limits
  return limits
end

-- Reads what follows the limits of a request.
local function read(r)
  local action, from = r.action, r.from
  local ending = action >= ENDS
  action = ending and action - ENDS or action
  local each = action >= EACH
  action = each and action - EACH or action
  r.joint = action >= JOINT
  action = r.joint and action - JOINT or action
  r.dry = action >= DRY
  r.action = r.dry and action - DRY or action
  r.more, r.ticket, r.ends, r.back = 0, 0, 0, 0
  if r.action >= RESERVE then
    r.more, r.ticket = unpack(PAIR, requests, from)
    from = from + PAIR_SIZE
  end
  if ending then
    r.ends, r.back = unpack(PAIR, requests, from)
    from = from + PAIR_SIZE
  end
  r.limits = limits_of(r)
  local n = r.n
  r.n = {}
  for j = 1, #r.limits do
    r.n[j] = each and unpack(NUMBER, requests, from + (j - 1) * NUMBER_SIZE) or n
  end
end

-- The answer to a request once, and if it is an error of the server, what that said
local function answer_to(r, state, dry)
  for j = 1, #r.limits do
    r.limits[j].n = r.n[j]
  end
  local sign, answer, refusal = decide(keys[r.key], state, r.limits, r.action, r.more, r.ticket, r.ends, r.back, dry)
  if sign == '!' then
    answer = answer:gsub('^@user_script: %d+: ', ''):match('^%-?(.-)%s*$') -- without the frame of servers before Redis 7
    refusal = refusal and answer
    answer = answer .. (' '):rep(-(3 + #answer) % RECORD_SIZE) -- so no reply with an error is as long as records alone
    return sign .. pack(ERROR, #answer, answer), refusal
  end
  return sign .. answer
end

-- Answers requests that belong together: all take, or none does. First each is decided as if it were alone, without
-- taking anything. Returns their answers, and what the server said if it refused to write one of them.
local function together(group)
  local found, refusal, states, all = {}, nil, {}, true
  for g, r in ipairs(group) do
    states[g] = pcall('GET', keys[r.key])
    local said
    found[g], said = answer_to(r, states[g], true)
    local sign = found[g]:sub(1, 1)
    all, refusal = all and (sign == '+' or sign == 'a'), refusal or said
  end
  if not all then
    return found, refusal
  end
  local taken = {}
  for g, r in ipairs(group) do
    taken[g], refusal = answer_to(r, pcall('GET', keys[r.key]), false)
    local sign = taken[g]:sub(1, 1)
    if sign == '!' or sign == '?' then -- the server lets only some of the keys be written, or what is left of the tokens lies
      -- in periods that were not sent: the others become what they were
      for h = 1, g - 1 do
        if states[h] then
          pcall('SET', keys[group[h].key], states[h], 'KEEPTTL')
        else
          pcall('DEL', keys[group[h].key])
        end
      end
      found[g] = taken[g]
      return found, refusal
    end
  end
  return taken
end

local refused, refusal = 0, nil
local group = {}
answers = answers or {}
for o = 1, #others do
  local r = others[o]
  read(r)
  group[#group + 1] = r
  if not r.joint then
    local list, said
    if #group > 1 then
      list, said = together(group)
    else
      local each, all = {}, nil -- what the server said, if it refused to write each time
      for t = 1, r.times do
        local once
        each[t], once = answer_to(r, pcall('GET', keys[r.key]), r.dry)
        all = (t == 1 or all) and once
      end
      list, said = { table.concat(each) }, all
    end
    if said then
      refused, refusal = refused + #group, said
    end
    for g, member in ipairs(group) do
      answers[2 * member.key - 1], answers[2 * member.key] = '', list[g]
    end
    group = {}
  end
end
if refused == #keys then
  return { err = refusal }
end
return pack(NUMBER, now) .. table.concat(answers)
