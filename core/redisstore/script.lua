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
--           many times; all but take are for one key, and all but take and END for one time. Then, if limits follow, for each of them tag, steps,
--           aligned, capacity, unit, gain, step, and its fill. Then, of reserve and the actions above it, more and ticket;
--           of an action with ENDS the ticket of the hold that ends, when it would end by itself, and how many tokens come
--           back (of END, for each of so many times); of one with EACH the n of each limit. One with JOINT belongs together
--           with the next request: all take, or none does. The last of them has EACH. One to take with DRY only finds out
--           whether there are tokens
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
-- the limit's holds.
local RECORD, RECORD_SIZE = '>I4I2dI7I7ff', 36
-- While tokens are held the key is a hash. Its field '' has the records, and behind that of a limit with holds: 0, what the
-- cuts of blocks depend on (steps, unit, gain, phase), 1 if a clock has moved the holds, how many are in front and how many
-- blocks there are, and when the first of these ends that is in a block. Then those in front, and the blocks: id, how many holds, their tokens, end and ticket of the last, due,
-- cut. Each block's holds are a field: the last as many of what is there. See holds.go.
local HOLDS, HOLDS_SIZE = '>I4I2I7I7I7I2I2I2I7', 40
local HOLD, HOLD_SIZE = '>I7I7I7', 21
local BLOCK, BLOCK_SIZE = '>I2I2I7I7I7I7I7', 39
local FIELD = '>I4I2' -- the name of a block's field: tag, id
local NO_TAG = '\0\0\0\0'
local LIMIT, LIMIT_SIZE = '>I4I2Bddddff', 47
local REQUEST, REQUEST_SIZE = '>I2I2BdI2', 15
local PAIR, PAIR_SIZE = '>dd', 16
local NUMBER, NUMBER_SIZE, ERROR, COUNT = '>d', 8, '>I2c0', '>I2'
local ENDING, ENDING_SIZE = '>ddd', 24
local TAKE, REFUND, END, RESERVE, AWAIT, LEASE, AT_MOST = 0, 1, 2, 3, 4, 5, 6
local DRY, JOINT, EACH, ENDS = 8, 32, 64, 128
local CALENDAR = 2 -- what `aligned` is then
local LEASE_LIFE, FIRST_LEASE, AT_ONCE = 2000000, 2 ^ 52, 2 ^ 51
local MAX_DEBT = 2 ^ 51 - 1
local MAX_HELD = 2 ^ 52 -- tokens: more than one bucket has, and owes
local FOREVER = 2 ^ 53
local LATEST = 2 ^ 52 -- in 2112. The sum of a later instant and a wait would not be whole
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS, MAX_HOLDS, MAX_PERIODS, MAX_BLOCK = 256, 4096, 4096, 64
local MARGIN = 1000 -- ms that state outlives the moment it no longer matters, at least
local GRAIN = 2000000 -- µs: that moment is rounded up to a multiple of it, so most writes of a busy key keep its TTL.
local FINE, COARSER = 64, 8 -- If it is more than 64 grains ahead, of one 8 times as long; and so on
local MAX_INT = 2 ^ 31 -- below it '%d' is right on any server, and cheaper than how Redis writes a number

-- A call costs more than a sum here, and so does making a function, which every run does anew. So x - x % 1 stands for
-- floor(x), x + -x % 1 for ceil(x), and comparisons for min and max.
local values = unpack -- of a table
local pack, unpack, format = struct.pack, struct.unpack, string.format
local protect = pcall -- Lua's own
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
      rest, from = rest - ENDS, from + ENDING_SIZE * (rest % DRY == END and times or 1)
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

-- What only holds and refunds need is made for the first that comes: see hold.go and holds.go. `front` is a list of
-- holds. A block's holds are read only if need be, into one list of the end, ticket and tokens of each; until then it has
-- `raw`, or only its field does. `inside` is the tokens in all blocks, and `held` those and the ones held in front.
-- `list` is holds that are not in blocks yet. `gone` is the fields that are no more.
local broken = false -- whether a block's field is not there
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

  -- Whether a hold holds its tokens at an instant. In the microsecond in which a reservation is due, its tokens are used
  -- after all else. A reservation that was due when it was made is used already, though it may be cancelled.
  local function holds_at(hold, at)
    return hold.at > at or hold.at == at and (hold.ticket < AT_ONCE or hold.ticket >= FIRST_LEASE)
  end

  local function sum(front, at)
    local held = 0
    for i = 1, #front do
      held = held + (holds_at(front[i], at) and front[i].tokens or 0)
    end
    return held
  end

  -- Counts the steps until an instant.
  local function tick(limit, phase, at)
    if limit.starts then
      return period(limit, at)
    end
    local steps = (at - phase) / limit.step
    return steps - steps % 1
  end

  -- How long after a multiple of a step those of a level begin
  local function phase_of(limit, at)
    return limit.aligned and 0 or at % limit.step
  end

  -- What a step brings to a bucket that is not in debt
  local function gain_of(limit)
    return limit.gain < limit.full and limit.gain or limit.full
  end

  -- Whether the cuts of blocks are those of a level at an instant
  local function fits(limit, holds, at)
    return holds.steps == limit.hash and holds.unit == limit.unit and holds.gain == gain_of(limit) and holds.phase == phase_of(limit, at)
  end

  -- Holds of a limit, none yet. Cuts are those of its level.
  local function new(limit)
    return {
      key = limit.key, tag = limit.tag, steps = limit.hash, unit = limit.unit, gain = gain_of(limit),
      phase = phase_of(limit, limit.at), moved = 0, front = {}, blocks = {}, inside = 0, held = 0, gone = {},
    }
  end

  -- Says that the holds of a block are others now.
  local function changed(block)
    block.raw, block.cut, block.from, block.first, block.stale = nil, nil, nil, block.list[1], true
    local n = #block.list
    block.count, block.at, block.ticket = n / 3, block.list[n - 2], block.list[n - 1]
  end

  -- Reads the holds that `state` has at `from`, of a limit with a tag. Returns them, and what follows; nil if this script did
  -- not write them.
  function rare.read(key, tag, state, from)
    if from + HOLDS_SIZE - 1 > #state then
      return nil
    end
    local _, steps, unit, gain, phase, moved, front, blocks, first, at = unpack(HOLDS, state, from)
    local holds = {
      key = key, tag = tag, steps = steps, unit = unit, gain = gain, phase = phase, moved = moved, front = {}, blocks = {},
      inside = 0, gone = {}, state = state,
    }
    if front + blocks == 0 or at + front * HOLD_SIZE + blocks * BLOCK_SIZE - 1 > #state then
      return nil
    end
    local all = 0
    for i = 1, front do
      local ends, ticket, tokens
      ends, ticket, tokens, at = unpack(HOLD, state, at)
      holds.front[i] = { at = ends, ticket = ticket, tokens = tokens }
      all = all + tokens
    end
    local list, inside = holds.blocks, 0
    for i = 1, blocks do
      local id, size, tokens, ends, ticket, due, cut = unpack(BLOCK, state, at)
      list[i] = { id = id, count = size, tokens = tokens, at = ends, ticket = ticket, due = due, cut = cut, from = at }
      inside, at = inside + tokens, at + BLOCK_SIZE
    end
    holds.inside = inside
    if list[1] then
      list[1].first = first
    end
    if all + inside <= MAX_HELD then
      return holds, at
    end
  end

  -- Reads the holds of the former layout: records behind the level, in the order of their ends, with the tag, 0, tokens, end,
  -- ticket, 0, 0. `written` is when. Returns nil if there are none, and what follows; nothing if this script did not write them.
  function rare.read_former(key, tag, state, from, written)
    local holds, list, all, before = nil, {}, 0, 0
    while from + RECORD_SIZE - 1 <= #state do
      local same, nothing, tokens, at, ticket, none, zero = unpack(RECORD, state, from)
      if same ~= tag then
        break
      end
      all = all + tokens
      if not (tokens >= 1 and all <= MAX_HELD and at < FOREVER and ticket < FOREVER) or tokens % 1 ~= 0 or at < before
        or ticket == 0 or nothing ~= 0 or none ~= 0 or zero ~= 0 then
        return nil
      end
      holds = holds or { key = key, tag = tag, moved = 0, front = {}, blocks = {}, inside = 0, gone = {} }
      list[#list + 1] = { at = at, ticket = ticket, tokens = tokens, order = #list }
      before, from = at, from + RECORD_SIZE
    end
    if holds then
      rare.part(holds, list, written)
    end
    return holds, from
  end

  -- Parts holds in those in front, which end until an instant, and one block of the others, which fits no level: rare.prune
  -- makes blocks of it.
  function rare.part(holds, list, at)
    local later = {}
    for _, hold in ipairs(list) do
      if hold.at <= at then
        holds.front[#holds.front + 1] = hold
      else
        later[#later + 1] = hold
        holds.inside = holds.inside + hold.tokens
      end
    end
    table.sort(later, function(a, b)
      if a.at ~= b.at then
        return a.at < b.at
      elseif a.ticket ~= b.ticket then
        return a.ticket < b.ticket
      end
      return a.order < b.order
    end)
    local entries = {}
    for i, hold in ipairs(later) do
      entries[3 * i - 2], entries[3 * i - 1], entries[3 * i] = hold.at, hold.ticket, hold.tokens
    end
    if entries[1] then
      holds.blocks[1] = { list = entries, tokens = holds.inside }
      changed(holds.blocks[1])
    end
  end

  -- The holds of a block as they are stored
  local function raw(holds, block)
    if not block.raw and block.list then
      block.raw = pack('>' .. ('I7I7I7'):rep(block.count), values(block.list))
    elseif not block.raw then
      local stored = pcall('HGET', holds.key, pack(FIELD, holds.tag, block.id))
      if type(stored) ~= 'string' or #stored < block.count * HOLD_SIZE then
        broken, stored = true, pack(HOLD, block.at, block.ticket, 1):rep(block.count)
      end
      if #stored > block.count * HOLD_SIZE then -- there are some that have ended, before these
        stored = stored:sub(-block.count * HOLD_SIZE)
      end
      block.raw = stored
    end
    return block.raw
  end

  -- The holds of a block: end, ticket and tokens of each
  local function list(holds, block)
    if not block.list then
      block.list = { unpack('>' .. ('I7I7I7'):rep(block.count), raw(holds, block), 1) }
      block.list[3 * block.count + 1] = nil
    end
    return block.list
  end

  -- What a block's cut becomes with another hold behind the others, for which the limit has gained so many units
  local function cut_with(holds, cut, all, tokens, gained)
    if all * holds.unit >= FOREVER then -- no bucket of these units holds as much: pass does not use it
      return FOREVER
    end
    local own = tokens * holds.unit
    return math.max(cut + own - gained, own)
  end

  -- When the first hold in a block ends
  local function first_end(holds, block)
    block.first = block.first or unpack(HOLD, raw(holds, block), 1)
    return block.first
  end

  -- How many tokens are held now
  local function held_now(holds)
    local held, before = sum(holds.front, now), 0
    for _, block in ipairs(holds.blocks) do
      if before > now or block.at >= now and first_end(holds, block) > now then
        held = held + block.tokens
      elseif block.at >= now then
        local entries = list(holds, block)
        for i = 1, #entries, 3 do
          held = held + (holds_at({ at = entries[i], ticket = entries[i + 1] }, now) and entries[i + 2] or 0)
        end
      end
      before = block.at
    end
    return held
  end

  -- How much the level can be now
  function rare.room(limit)
    return room(limit, held_now(limit.holds))
  end

  -- Computes what follows from the holds of those blocks that have changed.
  local function recount(limit)
    local holds = limit.holds
    local blocks = holds and holds.blocks or {}
    for b = 1, #blocks do
      local block = blocks[b]
      if not block.cut then
        local entries, cut, all, before = block.list, 0, 0, 0
        local unit, gain, phase, step, starts = holds.unit, holds.gain, holds.phase, limit.step, limit.starts
        for i = 1, #entries, 3 do -- as cut_with
          local steps, own = nil, entries[i + 2] * unit
          if starts then
            steps = period(limit, entries[i])
          else
            steps = (entries[i] - phase) / step
            steps = steps - steps % 1
          end
          cut = cut + own - (steps - before) * gain
          if cut < own then
            cut = own
          end
          all, before = all + entries[i + 2], steps
        end
        local last = #entries - 2
        while last > 0 and entries[last + 1] >= FIRST_LEASE do
          last = last - 3
        end
        block.tokens, block.due = all, entries[last] or 0
        block.cut = all * unit < FOREVER and cut or FOREVER
        holds.final = nil
      end
    end
  end

  -- The first block that does not end before a hold would, or that of none
  local function block_with(blocks, at, ticket)
    local low, high = 1, #blocks + 1
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      local block = blocks[middle]
      if block.at < at or block.at == at and block.ticket < ticket then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  local function drop(holds, i)
    local block = table.remove(holds.blocks, i)
    holds.final = nil
    if block.id then
      holds.gone[#holds.gone + 1] = pack(FIELD, holds.tag, block.id)
    end
  end

  -- Makes a block of a list of holds, the i-th.
  local function insert(holds, i, entries)
    local used, id = {}, 1
    for _, block in ipairs(holds.blocks) do
      used[block.id] = true
    end
    while used[id] do
      id = id + 1
    end
    local block = { id = id, list = entries }
    changed(block)
    table.insert(holds.blocks, i, block)
  end

  -- Makes blocks of all holds.
  local function rebuild(limit, entries)
    local holds = limit.holds
    for i = #holds.blocks, 1, -1 do
      drop(holds, i)
    end
    for i = 1, #entries, 3 * MAX_BLOCK do
      insert(holds, #holds.blocks + 1, { values(entries, i, math.min(#entries, i + 3 * MAX_BLOCK - 1)) })
    end
    recount(limit)
  end

  local function all(holds)
    local entries = {}
    for _, block in ipairs(holds.blocks) do
      for _, number in ipairs(list(holds, block)) do
        entries[#entries + 1] = number
      end
    end
    return entries
  end

  local function count(holds)
    local n = holds and #holds.front or 0
    for _, block in ipairs(holds and holds.blocks or {}) do
      n = n + block.count
    end
    return n
  end

  -- Makes one block of the i-th and the next, if there are these and they have as few holds as that.
  local function join(holds, i)
    local block, next_block = holds.blocks[i], holds.blocks[i + 1]
    if not block or not next_block or block.count + next_block.count > MAX_BLOCK then
      return
    end
    local entries = list(holds, block)
    for _, number in ipairs(list(holds, next_block)) do
      entries[#entries + 1] = number
    end
    drop(holds, i + 1)
    changed(block)
  end

  -- Removes the hold with a ticket, which ends at an instant, and returns its tokens; nil if there is none. recount must follow.
  local function remove(limit, ticket, at)
    local holds = limit.holds
    for i, hold in ipairs(holds.front) do
      if hold.ticket == ticket or hold.ticket == ticket + AT_ONCE then
        if holds_at(hold, now) then
          holds.held = holds.held - hold.tokens
        end
        table.remove(holds.front, i)
        return hold.tokens
      end
    end
    local moved = holds.moved > 0
    local first = moved and 1 or block_with(holds.blocks, at, ticket)
    for b = first, moved and #holds.blocks or math.min(first, #holds.blocks) do
      local block = holds.blocks[b]
      local entries = list(holds, block)
      for i = 1, #entries, 3 do
        if entries[i + 1] == ticket and (moved or entries[i] == at) then
          local tokens = entries[i + 2]
          for _ = 1, 3 do
            table.remove(entries, i)
          end
          holds.inside, holds.held = holds.inside - tokens, holds.held - tokens
          if #entries == 0 then
            drop(holds, b)
          else
            changed(block)
          end
          join(holds, b)
          join(holds, b - 1)
          return tokens
        end
      end
    end
  end

  -- Adds a hold, which ends now or later.
  local function add(limit, tokens, at, ticket)
    local holds = limit.holds
    local hold = { at = at, ticket = ticket, tokens = tokens }
    if holds_at(hold, now) then
      holds.held = holds.held + tokens
    end
    if at <= now then
      holds.front[#holds.front + 1] = hold
      return
    end
    holds.inside, holds.final = holds.inside + tokens, nil
    local blocks = holds.blocks
    local i = block_with(blocks, at, ticket)
    local last = blocks[#blocks]
    if i <= #blocks then
      local block = blocks[i]
      local entries = list(holds, block)
      local place = 1
      while entries[place] < at or entries[place] == at and entries[place + 1] < ticket do
        place = place + 3
      end
      table.insert(entries, place, tokens)
      table.insert(entries, place, ticket)
      table.insert(entries, place, at)
      local half = 3 * MAX_BLOCK / 2
      if #entries > 2 * half then
        insert(holds, i + 1, { values(entries, half + 1) })
        block.list = { values(entries, 1, half) }
      end
      changed(block)
      recount(limit)
    elseif last and last.count < MAX_BLOCK then -- behind all others, as mostly
      local gained = (tick(limit, holds.phase, at) - tick(limit, holds.phase, last.at)) * holds.gain
      last.raw = raw(holds, last) .. pack(HOLD, at, ticket, tokens)
      last.list, last.from, last.stale = nil, nil, true
      last.count, last.tokens, last.at, last.ticket = last.count + 1, last.tokens + tokens, at, ticket
      last.cut = cut_with(holds, last.cut, last.tokens, tokens, gained)
      if ticket < FIRST_LEASE then
        last.due = at
      end
    else
      insert(holds, #blocks + 1, { at, ticket, tokens })
      recount(limit)
    end
  end

  -- Moves the holds of a limit back: reservations that wait for a step by some steps, or periods of a calendar, and all
  -- others by as much as the clock.
  function rare.move(limit, steps, periods, back)
    local holds = limit.holds
    local moved, entries = holds.front, all(holds)
    for i = 1, #entries, 3 do
      moved[#moved + 1] = { at = entries[i], ticket = entries[i + 1], tokens = entries[i + 2] }
    end
    for i, hold in ipairs(moved) do -- none is over yet
      hold.order = i
      if hold.ticket >= AT_ONCE then
        hold.at = hold.at - back
      elseif limit.starts then
        hold.at = math.max(hold.at - back, earlier(limit, hold.at, periods))
      else
        hold.at = hold.at - steps
      end
    end
    for i = #holds.blocks, 1, -1 do
      drop(holds, i)
    end
    holds.front, holds.inside, holds.moved, holds.steps = {}, 0, 1, nil
    rare.part(holds, moved, now)
  end

  -- refill of a bucket with a block's holds, `out` tokens of all being held, until the last of them ends. At the end of a hold
  -- the level is at most its room while that is held, and from there on it gains as if there were no more holds. So at the
  -- end of the last it is the least of what it would gain, and of what it would from the end of each.
  local function pass(limit, holds, block, level, at, out)
    local unit, full = limit.unit, limit.full
    if out * unit > full + limit.deepest or not fits(limit, holds, at) then -- what room is then, or in other steps, no cut can tell
      local entries = list(holds, block)
      for i = 1, #entries, 3 do
        level, at = refill(room(limit, out), limit, level, at, entries[i], out)
        out = out - entries[i + 2]
      end
      return level, at
    end
    local last, phase, step, steps = block.at, holds.phase, limit.step, nil
    if limit.starts then
      steps = period(limit, last) - period(limit, at)
    else
      local before, after = (at - phase) / step, (last - phase) / step
      steps = after - after % 1 - before + before % 1
    end
    level = level + steps * holds.gain
    local most = full - (out - block.tokens) * unit - block.cut
    if level > most then
      level = most
    end
    return level, limit.aligned and last or at + steps * step
  end

  -- refill of a bucket with holds, of which those until `written` are counted
  function rare.refill(limit, level, at, written)
    local holds = limit.holds
    local out = sum(holds.front, written) + holds.inside
    for _, hold in ipairs(holds.front) do
      if hold.at < now and holds_at(hold, written) then
        level, at = refill(room(limit, out), limit, level, at, hold.at, out)
        out = out - hold.tokens
      end
    end
    for _, block in ipairs(holds.blocks) do
      if block.at >= now then
        local entries, i = first_end(holds, block) < now and list(holds, block), 1
        while entries and entries[i] < now do
          level, at = refill(room(limit, out), limit, level, at, entries[i], out)
          out, i = out - entries[i + 2], i + 3
        end
        break
      end
      level, at = pass(limit, holds, block, level, at, out)
      out = out - block.tokens
    end
    out = held_now(holds)
    return refill(room(limit, out), limit, level, at, now, out)
  end

  -- Forgets the holds that ended before now. The others are in blocks that fit the limit's level.
  function rare.prune(limit)
    local holds, front = limit.holds, {}
    local blocks = holds.blocks
    for _, hold in ipairs(holds.front) do
      if hold.at >= now then
        front[#front + 1] = hold
      end
    end
    while blocks[1] and blocks[1].at < now do
      holds.inside = holds.inside - blocks[1].tokens
      drop(holds, 1)
    end
    while blocks[1] and first_end(holds, blocks[1]) <= now do
      local block, rest = blocks[1], {}
      local entries = list(holds, block)
      for i = 1, #entries, 3 do
        local at, ticket, tokens = entries[i], entries[i + 1], entries[i + 2]
        if at > now then
          rest[#rest + 1], rest[#rest + 2], rest[#rest + 3] = at, ticket, tokens
        else
          holds.inside = holds.inside - tokens
          if at == now then
            front[#front + 1] = { at = at, ticket = ticket, tokens = tokens }
          end
        end
      end
      if #rest == 0 then
        drop(holds, 1)
      else
        local stale = block.stale
        block.list = rest
        changed(block)
        block.stale = stale -- its field may have more before these
      end
    end
    holds.front = front
    if fits(limit, holds, limit.at) then
      recount(limit)
    else -- another definition of the limit wrote them, its steps begin anew, or the clock has moved them
      local own = new(limit)
      holds.steps, holds.unit, holds.gain, holds.phase = own.steps, own.unit, own.gain, own.phase
      rebuild(limit, all(holds))
    end
    holds.held = sum(front, now) + holds.inside
  end

  -- wait in a bucket with the holds that rare.prune left: as long as they leave no room, no tokens come. `final` is the level
  -- at the end of all blocks, which a later call may need again.
  function rare.wait(limit, need)
    local level, at, holds = limit.level, limit.at, limit.holds
    if level >= need or not holds then
      return wait(limit, level, at, need, 0)
    end
    local final = holds.final
    if final and final.from == level and final.since == at and final.level < need then
      return math.min(FOREVER, wait(limit, final.level, final.at, need, 0))
    end
    local out, blocks, from, first = holds.inside, holds.blocks, level, at
    for b = 1, #blocks do
      local block = blocks[b]
      local passed, then_at = pass(limit, holds, block, level, at, out)
      if passed < need then
        level, at, out = passed, then_at, out - block.tokens
      else -- one of its holds leaves room for them
        local entries, unit, gain, step, phase = list(holds, block), limit.unit, gain_of(limit), limit.step, phase_of(limit, at)
        local before = tick(limit, phase, at)
        for i = 1, #entries, 3 do
          local ends, most, steps = entries[i], limit.full - out * unit, nil
          if most < -limit.deepest then
            most = -limit.deepest
          end
          if limit.starts then
            steps = period(limit, ends)
          else
            steps = (ends - phase) / step
            steps = steps - steps % 1
          end
          local filled = level + (steps - before) * gain
          if filled >= need and most >= need then
            return math.min(FOREVER, wait(limit, level, at, need, out))
          end
          at = limit.aligned and ends or at + (steps - before) * step
          level, before, out = filled < most and filled or most, steps, out - entries[i + 2]
        end
      end
    end
    holds.final = { from = from, since = first, level = level, at = at }
    return math.min(FOREVER, wait(limit, level, at, need, out))
  end

  -- The holds of a limit as they are stored behind its level: '' if there are none
  function rare.text(limit)
    local holds, front, blocks = limit.holds, limit.holds.front, limit.holds.blocks
    if #front + #blocks == 0 then
      return nil
    end
    local first = blocks[1] and first_end(holds, blocks[1]) or 0
    local parts = { pack(HOLDS, 0, holds.steps, holds.unit, holds.gain, holds.phase, holds.moved, #front, #blocks, first) }
    for _, hold in ipairs(front) do
      parts[#parts + 1] = pack(HOLD, hold.at, hold.ticket, hold.tokens)
    end
    local i = 1
    while blocks[i] do
      local block = blocks[i]
      if block.from then -- as before, as mostly those behind it
        local to = block.from + BLOCK_SIZE
        while blocks[i + 1] and blocks[i + 1].from == to do
          i, to = i + 1, to + BLOCK_SIZE
        end
        parts[#parts + 1] = holds.state:sub(block.from, to - 1)
      else
        parts[#parts + 1] = pack(BLOCK, block.id, block.count, block.tokens, block.at, block.ticket, block.due, block.cut)
      end
      i = i + 1
    end
    return table.concat(parts)
  end

  -- Stores the records of a key and the blocks of these limits that have changed, and returns the server's error if it
  -- refuses. The key becomes a hash if it is not one yet.
  function rare.store(key, hashed, records, limits, gone, ttl)
    local set
    if not hashed then
      set = pcall('PEXPIRE', key, ttl) -- before anything is lost: the server may not let this script use it
      if type(set) == 'table' then
        return set
      end
    end
    local fields = { '', records }
    for _, limit in ipairs(limits) do
      for _, block in ipairs(limit.holds and limit.holds.blocks or {}) do
        if block.stale then
          fields[#fields + 1] = pack(FIELD, limit.tag, block.id)
          fields[#fields + 1] = raw(limit.holds, block)
        end
      end
    end
    if hashed and #gone > 0 then
      pcall('HDEL', key, values(gone))
    end
    set = pcall('HSET', key, values(fields))
    if not hashed and type(set) == 'table' and set.err:find('^%-?WRONGTYPE') then
      pcall('DEL', key)
      set = pcall('HSET', key, values(fields))
    end
    if type(set) == 'table' then
      return set
    end
    return pcall('PEXPIRE', key, ttl)
  end

  -- A copy of a hash, and how to make it again from that
  function rare.copy(key)
    return { fields = pcall('HGETALL', key), ttl = pcall('PTTL', key) }
  end

  function rare.restore(key, copy)
    pcall('DEL', key)
    pcall('HSET', key, values(copy.fields))
    pcall('PEXPIRE', key, copy.ttl)
  end

  -- full, or the first step after it that is not before the end of the last hold: the record matters as long as any
  -- tokens are held.
  function rare.outlast(limit, full)
    local blocks = limit.holds and limit.holds.blocks or {}
    local last = blocks[1] and blocks[#blocks].at + 1 or 0
    if last <= full then
      return full
    elseif limit.starts then
      return math.min(last, FOREVER - 1)
    end
    local steps = math.ceil((math.min(last, FOREVER - 1) - full) / limit.step)
    if full + steps * limit.step >= FOREVER then
      steps = math.floor((FOREVER - 1 - full) / limit.step)
    end
    return full + steps * limit.step
  end

  -- Uses up to `tokens` of the reservations that were due at once. A refund in the same microsecond comes after they
  -- were used, so these tokens can't come back a second time when the reservation is cancelled.
  function rare.use_now(limit, tokens)
    local holds = limit.holds
    local front = {}
    for _, hold in ipairs(holds and holds.front or front) do
      if not holds_at(hold, now) then
        local used = math.min(tokens, hold.tokens)
        tokens, hold.tokens = tokens - used, hold.tokens - used
      end
      if hold.tokens > 0 then
        front[#front + 1] = hold
      end
    end
    if holds then
      holds.front = front
    end
  end

  -- Puts n tokens back, as far as there is room. A record that stays beside the limit's gets all of them.
  function rare.give(limit, n)
    local level = limit.level
    limit.level = math.max(level, math.min(level + n * limit.unit, room(limit, limit.holds and limit.holds.held or 0)))
    limit.lost = limit.lost + (n - (limit.level - level) / limit.unit)
  end

  -- Ends holds in every limit that has them, and puts back as many of their tokens as `endings` say. Returns whether any
  -- limit had one.
  function rare.finish(limits, endings)
    local ended = false
    for _, limit in ipairs(limits) do
      for _, ending in ipairs(limit.holds and endings or {}) do
        local tokens = remove(limit, ending.ticket, ending.at)
        if tokens then
          rare.give(limit, math.min(tokens, ending.back))
          ended = true
        end
      end
      recount(limit)
    end
    return ended
  end

  -- Holds tokens of every limit that n counts for: as many, or n.
  function rare.hold(limits, tokens, at, ticket)
    for _, limit in ipairs(limits) do
      if limit.n > 0 then
        limit.holds = limit.holds or new(limit)
        add(limit, tokens or limit.n, at, ticket)
      end
    end
  end

  -- When the n tokens of every limit are there, and not before those that were reserved earlier; and whether they can be
  -- promised
  function rare.promise(limits)
    local due, granted = now, true
    for _, limit in ipairs(limits) do
      local need, holds = limit.n * limit.unit, limit.holds
      due = math.max(due, math.min(FOREVER, now + rare.wait(limit, need)))
      local blocks = holds and holds.blocks or {}
      for i = #blocks, 1, -1 do
        if blocks[i].due > 0 then
          due = math.max(due, blocks[i].due)
          break
        end
      end
      granted = granted and limit.level - need >= -limit.deepest and count(holds) < MAX_HOLDS
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
          if count(limit.holds) >= MAX_HOLDS then
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
  if from + RECORD_SIZE - 1 > #state then
    return nil
  end
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
-- matter, and whether there are holds on these limits and on others. Other limits are kept as long as they matter: when two
-- versions of a policy are in use at once, neither forgets what the other's limits lost. `gone` gets the fields that don't.
local function arrange(key, hashed, limits, state, gone)
  local own, held = {}, false
  for _, limit in ipairs(limits) do
    own[limit.tag] = limit
  end
  local seen, others, keeps, n, others_held = {}, {}, 0, 0, false
  local from, size = 1, #state
  while from <= size do
    local last, first = read_record(state, from), from
    if not last or seen[last.tag] or last.tag == 0 then
      return 'is not a rate limit state'
    end
    local tag, older = last.tag
    seen[tag] = true
    local limit, holds = own[tag], nil
    local name = state:sub(from, from + 3)
    from = from + RECORD_SIZE
    if state:sub(from, from + 3) == name then
      older = read_record(state, from)
      if not older then
        return 'is not a rate limit state'
      elseif older.pace == 0 then
        older = nil -- a hold
      else
        from = from + RECORD_SIZE
      end
    end
    local matters = last.keep
    if older then
      matters = math.max(matters, until_full(older))
    end
    local following = state:sub(from, from + 3)
    local blocks = following == NO_TAG
    if blocks then
      holds, from = holding().read(key, tag, state, from)
    elseif following == name then
      holds, from = holding().read_former(key, tag, state, from, last.at)
    end
    if not from or blocks and not hashed then
      return 'is not a rate limit state'
    end
    if limit then
      limit.last, limit.older = last, older
      if holds then
        held = true
        limit.holds, holds.gone = holds, gone
      end
    elseif matters > now then
      n = n + 1
      keeps = math.max(keeps, matters)
      others[n] = state:sub(first, from - 1)
      others_held = others_held or blocks
    else
      for _, block in ipairs(blocks and holds.blocks or {}) do
        gone[#gone + 1] = pack(FIELD, tag, block.id)
      end
    end
  end
  if n > MAX_OTHERS then
    return 'is in use under more than 256 limits'
  end
  return nil, table.concat(others), keeps, held, others_held
end

-- Decides one key by its state. Returns the sign and the rest of an answer; or '!', an error, and whether the server is
-- at fault, not the key. If dry, a request to take only finds out whether there are tokens. The sign is '?' if the
-- decision needs periods of a calendar that were not sent.
local function decide(key, state, limits, action, more, ticket, endings, dry)
  missing, broken = false, false
  local hashed = false
  if type(state) == 'table' then
    local records = state.err:find('^%-?WRONGTYPE') and pcall('HGET', key, '')
    if type(records) ~= 'string' then
      return '!', state.err, not state.err:find('^%-?WRONGTYPE')
    end
    state, hashed = records, true
  end
  local others, keeps, held, fields, gone = '', 0, false, false, {} -- fields: whether there will be some
  for i = 1, #limits do
    limits[i].last, limits[i].older, limits[i].holds, limits[i].kept, limits[i].lost = nil, nil, nil, nil, 0
    limits[i].key, limits[i].also = key, nil
  end
  if state then
    local mistake
    if state:sub(1, 4) == NO_TAG then
      mistake = 'was written by a later version of this library'
    elseif #state == 0 then
      mistake = 'is not a rate limit state'
    else
      mistake, others, keeps, held, fields = arrange(key, hashed, limits, state, gone)
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
          end
          if level <= limit.level then
            limit.level, limit.at = level, at
          end
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

  if held and #endings > 0 and holding().finish(limits, endings) then
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
    limit.fills = held and holding().wait(limit, limit.full) or wait(limit, limit.level, limit.at, limit.full, 0)
    local full = full_at(limit, limit.fills)
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
        local text = limit.holds and holding().text(limit)
        stored[#stored + 1], fields = text, fields or text
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
  elseif broken then
    return '!', 'is not a rate limit state'
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
    local text, set = (stored and table.concat(stored) or answer) .. others, nil
    if fields then
      set = holding().store(key, hashed, text, limits, gone, ttl)
    else
      set = pcall('SET', key, text, 'PX', ttl)
    end
    if type(set) == 'table' and set.err then
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
      full = math.max(full, math.min(most, k == 0 and limit.fills or holding().wait(limit, limit.full)))
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
  r.more, r.ticket, r.endings = 0, 0, {}
  if r.action >= RESERVE then
    r.more, r.ticket = unpack(PAIR, requests, from)
    from = from + PAIR_SIZE
  end
  if ending then
    for i = 1, r.action == END and r.times or 1 do
      local ends, at, back = unpack(ENDING, requests, from)
      r.endings[i] = { ticket = ends, at = at, back = back }
      from = from + ENDING_SIZE
    end
  end
  r.times = r.action == TAKE and r.times or 1
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
  local done, sign, answer, refusal = protect(decide, keys[r.key], state, r.limits, r.action, r.more, r.ticket, r.endings, dry)
  if not done then -- nobody looks at all that is stored: bytes that mean nothing concern their key alone
    sign, answer = '!', 'is not a rate limit state: ' .. tostring(type(sign) == 'table' and sign.err or sign)
  end
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
  local taken, copies = {}, {}
  for g, r in ipairs(group) do
    copies[g] = type(states[g]) == 'table' and holding().copy(keys[r.key])
    taken[g], refusal = answer_to(r, pcall('GET', keys[r.key]), false)
    local sign = taken[g]:sub(1, 1)
    if sign == '!' or sign == '?' then -- the server lets only some of the keys be written, or what is left of the tokens lies
      -- in periods that were not sent: the others become what they were
      for h = 1, g - 1 do
        if copies[h] then
          holding().restore(keys[group[h].key], copies[h])
        elseif states[h] then
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
