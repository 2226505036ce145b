-- Reads records, and computes what follows from one (in Go: record.go, with
-- examples).

-- The record at a place of the state, and where it ends; nil if this script did
-- not write it. What is cut from its level is in cut, in tokens, and base; cut
-- is 0 if there is none.
local function read_record(state, from)
  if from + RECORD_SIZE - 1 > #state then
    return nil
  end
  local tag, _, mode, capacity, unit, gain, step, level, at, keep = unpack(RECORD, state, from)
  local to = from + RECORD_SIZE
  local record = { tag = tag, definition = sub(state, from, from + DEFINITION_SIZE - 1), level = level - ZERO_UNITS, at = at, keep = keep, cut = 0, base = 0 }
  if level >= 2 * ZERO_UNITS or at >= FOREVER or keep >= FOREVER or mode > SLOTS or math.min(capacity, unit, gain, step) < 1
    or capacity * unit >= MAX_FULL or gain > capacity * unit + MAX_DEBT or step > LATEST then
    return nil
  end
  if sub(state, to, to + 3) == sub(state, from, from + 3) then
    if to + CUT_SIZE - 1 > #state then
      return nil
    end
    local _, cut, base = unpack(CUT, state, to)
    if not (cut > 0 and cut <= FOREVER and base < MAX_FULL) then -- NaN fails it
      return nil
    end
    record.cut, record.base, to = cut, base, to + CUT_SIZE
  end
  return record, to
end

-- Rounds a product of tokens and unit down, after adding what the division and
-- the multiplication may have lost by rounding.
local function floor_units(units)
  units = units + math.abs(units) * ROUNDING_ERROR
  return units - units % 1
end

-- A limit by its bytes. On another definition's calendar nothing refills,
-- because its periods are not known: foreign.
local function limit_of(definition)
  local tag, steps_hash, mode, capacity, unit, gain, step = unpack(DEFINITION, definition, 1)
  return {
    tag = tag, definition = definition, steps_hash = steps_hash, aligned = mode == ALIGNED or mode == CALENDAR, foreign = mode == CALENDAR,
    is_slots = mode == SLOTS, capacity = capacity, unit = unit, gain = gain, step = step, full = capacity * unit, max_debt = MAX_DEBT,
    max_steps = FOREVER / step,
  }
end

-- The level of a record, which the limit's definition wrote, and its instant:
-- the last step up to the write
local function level_of(limit, record)
  local at = record.at
  if not limit.aligned then
    at = at - (at - record.keep) % limit.step
  end
  return math.max(-limit.max_debt, math.min(record.level, limit.full)), at
end
