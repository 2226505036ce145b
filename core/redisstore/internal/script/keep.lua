-- Stores a key's records with a TTL: they matter until all of its limits are
-- full and hold nothing (in Go: keep.go).

-- The TTL in ms of a key that matters until the instant `last`. It is rounded
-- up, so that most writes need not change it. Example: a key that matters for
-- 90 s more gets between 91 and 93 s.
local function ttl_of(last)
  local grain = GRAIN
  while last - now > FINE * grain do
    grain = COARSER * grain
  end
  local ttl = (last - last % grain + grain - now) / 1000
  ttl = ttl + -ttl % 1 + MARGIN
  return ttl < MAX_INT and format('%d', ttl) or ttl
end

-- Stores `limits`, and the key's records of other limits. Returns the levels of
-- `limits`, and the server's error if it refuses. With has_waits it sets
-- limit.fills of each. It stores and returns nothing if periods of a calendar
-- are missing, also for these, or holds unreadable.
local function keep(s, limits, has_waits)
  local answer, text, last, fields, pages = {}, {}, math.max(s.keeps, now), s.fields, nil -- pages: fields of slots
  for i = 1, #limits do
    local limit = limits[i]
    local full = full_at(limit)
    if has_waits and not limit.fills then
      limit.fills = wait_for(limit, limit.full, true)
    end
    if limit.holds then
      full = holds_lib().outlast(limit, full, holds_lib().last_end(limit.holds))
    end
    last = math.max(last, full)
    answer[i] = pack(LEVEL, limit.level + ZERO_UNITS, now, full)
    text[#text + 1] = limit.definition .. answer[i]
    if limit.cut > 0 then
      text[#text + 1] = pack(CUT, limit.tag, limit.cut, limit.base)
    end
    if limit.slots then
      pages = pages or {}
      text[#text + 1], text[#text + 2] = slots_lib.text(limit.slots, pages, s.removed)
      broken = broken or limit.slots.broken
    end
    local held = limit.holds and holds_lib().text(limit)
    text[#text + 1], fields = held, fields or held
  end
  text[#text + 1] = s.others
  if missing or broken then
    return
  end
  local set
  if fields or pages then
    set = holds_lib().store(s, table.concat(text), limits, pages, ttl_of(last))
  else
    set = pcall('SET', s.key, table.concat(text), 'PX', ttl_of(last))
  end
  return table.concat(answer), type(set) == 'table' and set.err or nil
end
