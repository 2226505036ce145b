-- Until when state is stored, and how

-- µs until a limit has `need` units
local function wait_for(limit, need)
  if limit.holds then
    return holding().wait_around(limit, need)
  end
  return wait(limit, limit.level, limit.at, need, 0)
end

-- The step with which a limit is full; limit.fills becomes how many µs that takes. If it is later than what can be stored,
-- the last step that can be.
local function full_at(limit)
  limit.fills = wait_for(limit, limit.full)
  local full = limit.level < limit.full and now + limit.fills or stepped_at(limit, limit.at)
  if full >= FOREVER then
    full = FOREVER - 1
    if not limit.starts then
      full = full - (full - stepped_at(limit, limit.at)) % limit.step
    end
  end
  return math.max(0, full) -- a period may have begun before 1970
end

-- ms for which a key is stored that matters until an instant
local function ttl_of(last)
  local grain = GRAIN
  while last - now > FINE * grain do
    grain = COARSER * grain
  end
  local ttl = (last - last % grain + grain - now) / 1000
  ttl = ttl + -ttl % 1 + MARGIN
  return ttl < MAX_INT and format('%d', ttl) or ttl
end

-- Stores limits and what else the key has. Returns the records of these limits, and the server's error if it refuses.
local function keep(s, limits)
  local answer, text, last, fields = {}, {}, math.max(s.keeps, now), s.fields
  for i = 1, #limits do
    local limit = limits[i]
    local full = full_at(limit)
    if limit.holds then
      full = holding().outlast(limit, full)
    end
    last = math.max(last, full)
    answer[i] = pack(RECORD, limit.tag, limit.hash, limit.level / limit.unit, now, full, limit.most, limit.pace)
    text[#text + 1] = answer[i]
    local kept = limit.kept
    if kept then -- it is charged what the limit is charged
      kept.tokens = math.max(-FOREVER, math.min(kept.tokens - (limit.before - limit.level) / limit.unit + limit.lost, kept.most))
      local ends = until_full(kept)
      if ends > now then
        last = math.max(last, ends)
        text[#text + 1] = pack(RECORD, kept.tag, kept.hash, kept.tokens, kept.at, kept.keep, kept.most, kept.pace)
      end
    end
    local held = limit.holds and holding().text(limit)
    text[#text + 1], fields = held, fields or held
  end
  text[#text + 1] = s.others
  if missing or broken then
    return
  end
  local set
  if fields then
    set = holding().store(s, table.concat(text), limits, ttl_of(last))
  else
    set = pcall('SET', s.key, table.concat(text), 'PX', ttl_of(last))
  end
  return table.concat(answer), type(set) == 'table' and set.err or nil
end
