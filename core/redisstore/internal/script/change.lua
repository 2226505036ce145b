-- Computes a limit's level from its record, which another definition may have
-- written (in Go: change.go, with the rule and an example).

-- So many units of the definition w as whole tokens, and the rest in units of
-- the limit, rounded down
local function tokens_of(limit, w, units)
  local rest = units % w.unit
  return (units - rest) / w.unit, floor_units(rest / w.unit * limit.unit)
end

-- Tokens and a rest in units, at least the deepest debt and at most full
local function units_of(limit, tokens, rest)
  if tokens >= limit.capacity then
    return limit.full
  end
  return math.max(-limit.max_debt, tokens * limit.unit + rest)
end

-- A level and what is cut, both of now, as they are under the limit, in place
-- of the definition w, which wrote the record. `ended` is until when w has
-- counted the time, and `held` tokens are held.
local function take_over(limit, w, level, cut, held, ended)
  local tokens, rest = tokens_of(limit, w, level)
  local by, base, gone = limit.capacity - w.capacity, units_of(limit, tokens_of(limit, w, cut.base)), cut.tokens
  if by >= 0 then -- what was cut comes first
    level = math.min(limit.full, units_of(limit, tokens, rest) + by * limit.unit - math.min(by * limit.unit, cut_units(limit, gone)))
    gone = gone - by
  else -- as much as is cut already is no part of the level: it came since
    local whole = math.min(-by, math.floor(gone))
    local part = math.min((-by - whole) * limit.unit, cut_units(limit, gone - whole))
    local before = units_of(limit, tokens, rest)
    level = math.min(units_of(limit, tokens + by + whole, rest + part), room(limit, held))
    level = math.max(level, math.min(before, room(limit, limit.capacity + held))) -- no debt but what is held
    base = gone > 0 and math.max(0, base - math.max(0, before - level)) or 0
    gone = gone + ((-by - tokens) + (level - rest) / limit.unit)
  end
  cut.tokens, cut.base = math.max(0, math.min(gone, FOREVER)), base
  local at = now
  if (level < limit.full or gone > 0) and not limit.aligned then
    at = math.max(ended, now - limit.step + 1)
  end
  return level, at
end

-- The level at now, its instant, what is cut, and until when the time has
-- counted, if nothing is taken until then. The definition w, which may be the
-- limit itself, has the level w.level of w.at, and w.cut and w.base, at the
-- instant w.written. At `full_at` the bucket is full, and its steps begin with
-- its next use.
local function level_at(limit, w, full_at)
  local cut, level, at, ended = { tokens = 0, base = 0 }, nil, now, now
  if full_at <= now then
    level = limit.holds and holds_lib().room(w) or w.full
  else
    cut.tokens, cut.base = w.cut, w.base
    if limit.holds then
      level, at = holds_lib().refill_around(w, w.level, w.at, w.written, cut)
    else
      level, at = refill_cut(w, w.level, w.at, now, w.full, 0, cut)
    end
    ended = at
    if w.aligned then
      ended = w.foreign and w.written or math.max(w.written, stepped_at(w, at))
    end
  end
  if w ~= limit then
    level, at = take_over(limit, w, level, cut, limit.holds and holds_lib().held_now(limit.holds) or 0, ended)
  end
  return level, at, cut, ended
end

-- µs until a limit has `need` units, if nothing is taken until then, and if its
-- level comes from that of w: see level_at. It finds the first instant at which
-- level_at has them, so that what is promised is what happens.
local function search(limit, w, full_at, need)
  if (level_at(limit, w, full_at)) >= need then
    return 0
  end
  local moment, from, to = now, now, math.max(now + 1, full_at)
  while to - from > 1 do
    now = from + (to - from - (to - from) % 2) / 2
    if (level_at(limit, w, full_at)) >= need then
      to = now
    else
      from = now
    end
  end
  now = moment
  return to - now
end

-- Moves the stored instants of a limit back to now, to which the clock has
-- stepped back: nothing refills for the time between. If the last step is ahead
-- of now, the steps begin again at now. Returns whether this must be stored.
-- decide.go has an example.
local function step_back(limit, record, w)
  local _, at = level_of(w, record)
  local last, steps, periods, by = stepped_at(w, at), 0, 0, record.at - now
  if last > now and not w.foreign then
    steps = last - stepped_at(w, now)
    if w.starts then
      periods = period(w, record.at) - period(w, now)
      steps = record.keep - earlier(w, record.keep, periods)
    end
    record.keep = record.keep - math.min(steps, by)
  elseif not limit.holds then
    return false
  end
  if limit.holds then
    w.holds = limit.holds
    holds_lib().move(w, w.foreign and by or w.aligned and by - by % w.step or steps, periods, by)
    limit.holds = w.holds
  end
  record.at = now
  return true
end

-- Refills a limit to now, and drops the holds that ended before. A limit that
-- was not used yet is full, and its steps begin here. If another definition
-- wrote its record, limit.writer gets that, with its level. Returns whether a
-- clock that stepped back must be stored.
local function refill_stored(limit)
  local record = limit.last
  limit.writer, limit.cut, limit.base = nil, 0, 0
  if limit.slots then
    local back = record and record.at > now
    if back then
      slots_lib.move(limit.slots, record.at - now)
    end
    limit.level, limit.at, limit.matters = limit.capacity - limit.slots.used, now, slots_lib.ends(limit.slots)
    return back
  elseif not record then
    limit.level, limit.at, limit.matters = limit.full, now, 0
    return false
  end
  local w = limit
  if record.definition ~= limit.definition then
    w = limit_of(record.definition)
    limit.writer, w.hold = w, limit.hold
    if w.foreign and limit.starts and w.steps_hash == limit.steps_hash then -- it is the same calendar
      w.foreign, w.starts, w.max_steps = false, limit.starts, limit.max_steps
    end
  end
  local write = record.at > now and step_back(limit, record, w)
  limit.matters, w.holds = record.keep, limit.holds
  w.level, w.at = level_of(w, record)
  w.cut, w.base = record.cut, record.base
  w.written = math.min(record.at, now)
  local level, at, cut, ended = level_at(w, w, record.keep)
  limit.written = now
  if w == limit or limit.holds then -- prune drops what search would need to begin with the record
    w.level, w.at, w.cut, w.base, w.written = level, at, cut.tokens, cut.base, now
  end
  if w ~= limit then
    limit.level, limit.at = take_over(limit, w, level, cut, limit.holds and holds_lib().held_now(limit.holds) or 0, ended)
    limit.cut, limit.base = cut.tokens, cut.base
  end
  if limit.holds then
    holds_lib().prune(limit)
  end
  return write
end
