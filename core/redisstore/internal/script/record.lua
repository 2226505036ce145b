-- Reads records, and computes what follows from one (in Go: record.go, with examples).

-- The record at a place of the state; nil if this script did not write it
local function read_record(state, from)
  if from + RECORD_SIZE - 1 > #state then
    return nil
  end
  local tag, steps_hash, tokens, at, keep, fill_capacity, pace = unpack(RECORD, state, from)
  if tokens >= -FOREVER and tokens <= FOREVER and at < FOREVER and keep < FOREVER
    and fill_capacity >= 0 and fill_capacity <= FOREVER and pace >= -FOREVER and pace <= FOREVER then -- NaN fails it
    return { tag = tag, steps_hash = steps_hash, tokens = tokens, at = at, keep = keep, fill_capacity = fill_capacity, pace = pace }
  end
end

-- When the bucket of a record is full under the definition that wrote it, at the latest
local function until_full(record)
  local pace = math.abs(record.pace)
  local micros = (record.fill_capacity - record.tokens) * pace
  if record.pace < 0 then
    micros = micros + record.fill_capacity * pace
  end
  return math.min(FOREVER - 1, record.at + math.ceil(math.max(0, math.min(FOREVER, micros))))
end

-- How many tokens a limit has left if as many are used as a record says
local function left(limit, record)
  if record.fill_capacity == limit.fill_capacity then
    return record.tokens
  end
  return limit.capacity - (record.fill_capacity - record.tokens)
end

-- Rounds a product of tokens and unit down, after adding what the division and the multiplication may have lost by rounding.
local function floor_units(units)
  units = units + math.abs(units) * ROUNDING_ERROR
  return units - units % 1
end

-- The level of a record, and its instant: the last step up to the write. A lower Capacity makes no debt. If the record was written
-- in the limit's steps, they go on; otherwise new steps begin with the write.
local function level_of(limit, record)
  local level, at = floor_units(math.max(left(limit, record), math.min(record.tokens, 0)) * limit.unit), record.at
  level = math.max(-limit.max_debt, math.min(level, limit.full))
  if not limit.aligned and record.steps_hash == limit.steps_hash then
    at = at - (at - record.keep) % limit.step
  end
  return level, at
end
