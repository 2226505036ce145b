-- The usual requests: to take, of limits that wrote all of the key's state themselves, or of a key without state. They are
-- decided here in one piece (in Go: usual.go). All others are left to the rest.
--
--   level = min(full, level + floor((now - at) / step) * gain)        refill
--   allowed if every limit has level >= n * unit                      check
--   level = level - n * unit                                          take
--
-- All numbers are whole and below 2^53, so these doubles are exact. A token is `unit` units.

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
local others -- the requests that are not usual, each with its key's place, its own in ARGV[1], and that of its limits
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
    others[#others + 1] = {
      place = i, key = key, state = not answers and state, limits = limits, at_limits = at_limits, action = action, n = n,
      times = times, from = from,
    }
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
