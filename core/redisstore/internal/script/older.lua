-- Computes a limit's level from its records: the last one, and the older one of an earlier definition. What was used stays used
-- when the Capacity changes. older.go has the rule and an example.

-- The level at now that follows from a record. It matters until the instant `matters`: then the bucket is full.
local function since(limit, record, matters)
  if matters <= now then
    return limit.holds and holds_lib().room(limit) or limit.full, now
  end
  local level, at = level_of(limit, record)
  if limit.holds then
    return holds_lib().refill_around(limit, level, at, record.at)
  end
  return refill(limit, level, at, now, limit.full, 0)
end

-- So many tokens of a record, in units, plus what the limit has gained since the record was written; how many steps that were,
-- and the level's instant after them. It is not bounded as a level is.
local function left_after(limit, record, tokens)
  local _, at = level_of(limit, record)
  local steps
  steps, at = steps_since(limit, at, now)
  local most = 2 ^ 52
  return math.max(-most, math.min(most, floor_units(tokens * limit.unit))) + math.min(most, steps * limit.gain), steps, at
end

-- The record that must be stored behind one of limit.level: the last or the older one, whichever leaves the limit fewer tokens; nil
-- if neither leaves it less than the level. If the limit refills no slower than that record's definition, what it has refilled until
-- now is added. Otherwise the record stays, and a later decision counts the time since.
local function most_used(limit)
  local chosen, least = nil, limit.level
  for i = 1, 2 do
    local record = i == 1 and limit.last.keep > now and limit.last or i == 2 and limit.older
    if record then
      local units, steps, at = left_after(limit, record, left(limit, record))
      if units < least then
        least = units
        chosen = { tag = record.tag, steps_hash = record.steps_hash, tokens = record.tokens, at = math.min(record.at, now), keep = record.keep,
          fill_capacity = record.fill_capacity, pace = record.pace }
        if math.abs(limit.pace) <= math.abs(record.pace) then
          chosen.tokens, chosen.at = math.min(record.tokens + steps * limit.gain / limit.unit, record.fill_capacity), math.min(at, now)
        end
      end
    end
  end
  return chosen
end

-- Whether the limit's definition wrote a record
local function wrote(limit, record)
  return record.steps_hash == limit.steps_hash and record.fill_capacity == limit.fill_capacity and record.pace == limit.pace
end

-- Moves the stored instants of a limit back to now, to which the clock has stepped back: nothing refills for the time between. If
-- the last step is ahead of now, the steps begin again at now. Returns whether this must be stored. decide.go has an example.
local function step_back(limit)
  local record = limit.last
  local _, at = level_of(limit, record)
  local last, steps, periods, by = stepped_at(limit, at), 0, 0, record.at - now
  if last > now then
    steps = last - stepped_at(limit, now)
    if limit.starts then
      periods = period(limit, record.at) - period(limit, now)
      steps = 0
      if (record.keep - record.at) / limit.step < MAX_PERIODS then -- further away only if another definition wrote it
        steps = record.keep - earlier(limit, record.keep, periods)
      end
    end
    record.keep = record.keep - math.min(steps, by)
  elseif not limit.holds then
    return false
  end
  if limit.holds then
    holds_lib().move(limit, limit.aligned and by - by % limit.step or steps, periods, by)
  end
  record.at = now
  return true
end

-- Lowers limit.level to what the older record leaves. Another definition wrote the last record. If the steps of the two begin at
-- different instants, limit.bounds gets their levels: a wait is the longest of any.
local function lower(limit, older)
  local record = limit.last
  if wrote(limit, older) then
    local level, at = since(limit, older, FOREVER)
    if at ~= limit.at and limit.level < limit.full then -- the steps of the two begin at different instants
      limit.bounds = { { limit.level, limit.at }, { level, at } }
    end
    if level <= limit.level then
      limit.level, limit.at = level, at
    end
    return
  end
  -- A third definition: neither record is its own. It has what the older record leaves it, but no less than the last one had, and
  -- no more than the last one leaves it.
  local units, _, at = left_after(limit, older, left(limit, older))
  local had, _, last_at = left_after(limit, record, record.tokens)
  if at ~= limit.at or last_at ~= limit.at then
    limit.bounds = { { limit.level, limit.at } }
  end
  limit.level = math.max(-limit.max_debt, math.min(limit.level, math.max(units, had)))
  limit.at = math.max(limit.at, at, last_at)
end

-- When the first of the limit's records no longer matters, if that is after now; otherwise when the last one doesn't
local function earliest(limit)
  local first = limit.matters
  if limit.older then
    if limit.last.keep > now then
      first = math.min(first, limit.last.keep)
    end
    local ends = until_full(limit.older)
    if ends > now then
      first = math.min(first, ends)
    end
  end
  return first
end

-- Refills a limit to now, and drops the holds that ended before. A limit that was not used yet is full, and its steps begin here.
-- Sets limit.next_older: the older record if the decision is stored. Returns whether a clock that stepped back must be stored.
local function refill_stored(limit)
  local record, older = limit.last, limit.older
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
  local write = record.at > now and step_back(limit)
  limit.matters = record.keep
  if older then
    local ends = until_full(older)
    limit.matters = math.max(limit.matters, ends)
    older.at = math.min(older.at, now, record.at) -- the clock may have stepped back; and it was written before the last one
    if ends <= now then
      older = nil
    elseif math.abs(limit.pace) < math.abs(older.pace) then
      older.at = math.max(older.at, math.min(record.at, now)) -- the faster rate counts only since the last record was written
    end
  end
  limit.level, limit.at = since(limit, record, record.keep)
  limit.older = older
  local same = wrote(limit, record)
  if older and not same then
    lower(limit, older)
  end
  if older or not same then
    limit.next_older, limit.before = most_used(limit), limit.level
  end
  if limit.holds then
    holds_lib().prune(limit)
  end
  return write
end
