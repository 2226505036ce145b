-- Decides requests on the fast path, in one loop without functions (in Go:
-- fast_path.go). A request takes it if it is a TAKE without flags, and if the key
-- has no state, or its limits wrote all of it, not later than now. flags.lua decides
-- most of the others, and the other files decide the rest.
--
--   level = min(full, level + floor((now - at) / step) * gain)        refill
--   allowed if every limit has level >= n * unit                      check
--   level = level - n * unit                                          take
--
-- A token is `unit` units. All numbers are whole and below 2^53, so doubles are
-- exact. Example: of 10 tokens, 2 a second, 3 are left, and 400 ms pass. A
-- token is 500,000 units, the step is 1 µs and the gain 1 unit: 1,500,000 +
-- 400,000 units are 3.8 tokens. A request for 1 is allowed and leaves 2.8.

-- Calling or making a function costs more than the arithmetic. So x - x % 1
-- stands for floor(x), x + -x % 1 for ceil(x), and comparisons for min and max.
local values = unpack -- of a table
local pack, unpack, format, sub = struct.pack, struct.unpack, string.format, string.sub
local protect = pcall -- Lua's own
local pcall = redis.pcall -- errors are answers

local now = ARGV[2] and tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  if now < 0 or now > LATEST then
    return { err = 'ERR the clock of this server is not from 1970 to 17 September 2112' }
  end
end

local keys, requests = KEYS, ARGV[1]
local answers = keys[2] and {} -- with one key the answer is returned at once
local slow -- the requests that do not take the fast path
local from, at_limits = 1 -- where the next request and the current limits begin in ARGV[1]
local same, limits, action, n, times = 0 -- the current request; `same` more keys share it
-- Its only limit, or the last one read
local definition, _, aligned, capacity, unit, gain, step -- definition: the limit as bytes
local parsed, levels, ats -- of each limit, if there are several
local slots_lib -- what slots.lua has, if it was needed
for i = 1, #keys do
  local key = keys[i]
  if same > 0 then
    same = same - 1
  else
    local follow
    same, follow, action, n, times = unpack(REQUEST, requests, from)
    same, from = same - 1, from + REQUEST_SIZE
    if follow > 0 then
      limits, at_limits = follow, from
      if limits == 1 then
        definition = sub(requests, from, from + DEFINITION_SIZE - 1)
        _, _, aligned, capacity, unit, gain, step = unpack(DEFINITION, requests, from)
      else
        parsed, levels, ats = {}, {}, {}
        for j = 1, limits do
          local at_limit = from + (j - 1) * DEFINITION_SIZE
          parsed[j] = { sub(requests, at_limit, at_limit + DEFINITION_SIZE - 1), unpack(DEFINITION, requests, at_limit) }
        end
      end
      from = from + limits * DEFINITION_SIZE
    end
  end

  -- The state of a key is a string, or the field '' of a hash while tokens are
  -- held.
  local state, hashed
  if action % JOINT >= HELD then
    state = pcall('HGET', key, '')
    hashed = type(state) == 'string'
  end
  if not hashed then
    state = pcall('GET', key)
  end

  -- sign becomes nil if the request does not take the fast path. The stored
  -- state matters until kept_until, and was written at written_at.
  local sign, level, at, kept_until, written_at, allowed = '+', nil, nil, 0, 0, times
  local reply -- to a request with flags
  if action ~= TAKE then
    sign = nil
    include flags
    if reply and not answers then
      return pack(NUMBER, now) .. reply
    elseif reply then
      answers[2 * i - 1], answers[2 * i] = '', reply
    end
  elseif state and #state ~= limits * RECORD_SIZE then
    sign = nil
  else
    for j = 1, limits do
      if limits > 1 then
        definition, _, _, aligned, capacity, unit, gain, step = values(parsed[j])
      end
      local full = capacity * unit
      level, at = full, now -- a limit that was not used yet starts full, and its steps begin here
      if state then
        local at_record = (j - 1) * RECORD_SIZE
        local units, written, keep = unpack(LEVEL, state, at_record + DEFINITION_SIZE + 1)
        if sub(state, at_record + 1, at_record + DEFINITION_SIZE) ~= definition or written > now
          or units > full + ZERO_UNITS or units < ZERO_UNITS - MAX_DEBT or keep >= FOREVER or gain > full then
          sign = nil
          break
        end
        if keep > kept_until then
          kept_until = keep
        end
        if written > written_at then
          written_at = written
        end
        if keep > now then -- otherwise it is full, as if it was not used yet
          at = written - (aligned == 1 and written or written - keep) % step -- keep is one of its steps
          local steps = (now - at) / step
          steps = steps - steps % 1
          level = units - ZERO_UNITS + steps * gain
          at = aligned == 1 and now or at + steps * step
          if level >= full then -- the steps of a full bucket begin with its next use
            level, at = full, now
          end
        end
      end
      -- Check. If the request has several times, as many are allowed as the
      -- level has tokens for.
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
    local answer -- the levels; of several limits that are written, the records
    local write, last = allowed > 0 and n > 0, now
    for j = 1, limits do
      if limits > 1 then
        definition, _, _, aligned, capacity, unit, gain, step = values(parsed[j])
        level, at = levels[j], ats[j]
      end
      if write then
        -- Take, and find the step with which the limit is full again.
        level = level - n * unit * allowed
        local steps = (capacity * unit - level) / gain
        at = aligned == 1 and at - at % step or at
        local keep = at + (steps + -steps % 1) * step
        if keep >= FOREVER then -- take the last step that can be stored
          keep = FOREVER - 1 - (FOREVER - 1 - at) % step
        end
        if keep > last then
          last = keep
        end
        local packed = pack(LEVEL, level + ZERO_UNITS, now, keep)
        if limits > 1 then
          answer = answer and answer .. definition .. packed or definition .. packed
        else
          answer = packed
        end
      else
        local packed = pack(LEVEL, level + ZERO_UNITS, at, at)
        answer = answer and answer .. packed or packed
      end
    end
    -- Store the records. The TTL is rounded up to a grain, so most writes of a
    -- busy key can leave it as it is.
    if write then
      local set -- how long the state is, OK, or a table with an error
      local grain, before = GRAIN, GRAIN
      while last - now > FINE * grain do
        grain = COARSER * grain
      end
      while kept_until - written_at > FINE * before do
        before = COARSER * before
      end
      last = last - last % grain + grain
      if state and last <= kept_until - kept_until % before + before then
        -- as SET with KEEPTTL, but faster; the old state has the same length
        set = pcall('SETRANGE', key, limits > 1 and '0' or '35', answer)
      else
        local ttl = (last - now) / 1000
        ttl = ttl + -ttl % 1 + MARGIN
        if ttl < MAX_INT then
          ttl = format('%d', ttl)
        end
        set = pcall('SET', key, limits > 1 and answer or definition .. answer, 'PX', ttl)
      end
      if set ~= limits * RECORD_SIZE and set.err then
        sign = nil
      end
    end
    if sign then
      if not answers and write and allowed == times then
        return answer
      end
      if write and limits > 1 then
        local records = answer
        answer = ''
        for to = RECORD_SIZE, #records, RECORD_SIZE do
          answer = answer .. sub(records, to - LEVEL_SIZE + 1, to)
        end
      end
      if times > 1 then
        sign = '*' .. pack(COUNT, allowed)
      end
      if n == 0 and not state and sign == '+' then
        sign = 'n'
      end
      if not answers then
        return pack(NUMBER, now) .. sign .. answer
      end
      answers[2 * i - 1], answers[2 * i] = sign, answer
    end
  end

  if not sign and not reply then
    if answers then
      answers[2 * i - 1], answers[2 * i] = '', '' -- a placeholder
    end
    slow = slow or {}
    slow[#slow + 1] = {
      place = i, key = key, state = not answers and not hashed and state, limits = limits, at_limits = at_limits, action = action, n = n,
      times = times, from = from,
    }
    local rest = action -- without its flags
    if rest >= ENDS then
      rest, from = rest - ENDS, from + ENDING_SIZE * (rest % DRY == END and times or 1)
    end
    if rest >= EACH then
      rest, from = rest - EACH, from + limits * NUMBER_SIZE
    end
    if rest % JOINT >= HELD then
      from = from + limits * NUMBER_SIZE
    end
    if rest % DRY >= RESERVE then
      from = from + PAIR_SIZE
    end
  end
end
