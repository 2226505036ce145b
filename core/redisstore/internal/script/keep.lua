-- Stores a key's records with a TTL: they matter until all of its limits are full and hold nothing (in Go: keep.go).

-- µs until a limit has `need` units
local function wait_for(limit, need)
  if limit.slots then
    return slots_lib.wait(limit.slots, limit.capacity, need)
  elseif limit.holds then
    return holds_lib().wait_around(limit, need)
  end
  return wait(limit, limit.level, limit.at, need, 0)
end

-- The instant of the first step at which a limit is full, or the last step that can be stored. Sets limit.fills to the µs until the
-- limit is full.
local function full_at(limit)
  limit.fills = wait_for(limit, limit.full)
  if limit.slots then
    return slots_lib.ends(limit.slots)
  end
  local full = limit.level < limit.full and now + limit.fills or stepped_at(limit, limit.at)
  if limit.holds and limit.level < limit.full then -- tokens of a hold may come back between two steps
    full = holds_lib().outlast(limit, stepped_at(limit, limit.at), math.min(FOREVER, full))
  end
  if full >= FOREVER then
    full = FOREVER - 1
    if not limit.starts then
      full = full - (full - stepped_at(limit, limit.at)) % limit.step
    end
  end
  return math.max(0, full) -- a period may have begun before 1970
end

-- The TTL in ms of a key that matters until the instant `last`. It is rounded up, so that most writes need not change it.
-- Example: a key that matters for 90 s more gets between 91 and 93 s.
local function ttl_of(last)
  local grain = GRAIN
  while last - now > FINE * grain do
    grain = COARSER * grain
  end
  local ttl = (last - last % grain + grain - now) / 1000
  ttl = ttl + -ttl % 1 + MARGIN
  return ttl < MAX_INT and format('%d', ttl) or ttl
end

-- Stores `limits`, and the key's records of other limits. Returns the last records of `limits`, and the server's error if it
-- refuses. It stores and returns nothing if periods of a calendar are missing or holds unreadable.
local function keep(s, limits)
  local answer, text, last, fields, blocks = {}, {}, math.max(s.keeps, now), s.fields, nil -- blocks: fields of slots
  for i = 1, #limits do
    local limit = limits[i]
    local full = full_at(limit)
    if limit.holds then
      full = holds_lib().outlast(limit, full, holds_lib().last_end(limit.holds))
    end
    last = math.max(last, full)
    answer[i] = pack(RECORD, limit.tag, limit.steps_hash, limit.level / limit.unit, now, full, limit.fill_capacity, limit.pace)
    text[#text + 1] = answer[i]
    if limit.slots then
      blocks = blocks or {}
      text[#text + 1], text[#text + 2] = slots_lib.text(limit.slots, blocks, s.removed)
      broken = broken or limit.slots.broken
    end
    local older = limit.next_older
    if older then -- the older record is charged what the limit is charged
      older.tokens = math.max(-FOREVER, math.min(older.tokens - (limit.before - limit.level) / limit.unit + limit.uncredited, older.fill_capacity))
      local ends = until_full(older)
      if ends > now then
        last = math.max(last, ends)
        text[#text + 1] = pack(RECORD, older.tag, older.steps_hash, older.tokens, older.at, older.keep, older.fill_capacity, older.pace)
      end
    end
    local held = limit.holds and holds_lib().text(limit)
    text[#text + 1], fields = held, fields or held
  end
  text[#text + 1] = s.others
  if missing or broken then
    return
  end
  local set
  if fields or blocks then
    set = holds_lib().store(s, table.concat(text), limits, blocks, ttl_of(last))
  else
    set = pcall('SET', s.key, table.concat(text), 'PX', ttl_of(last))
  end
  return table.concat(answer), type(set) == 'table' and set.err or nil
end
