-- Reads and stores holds. constants.lua has the formats: HOLDS, HOLD, PAGE and
-- FIELD. The holds of a limit are a table:
--   steps_hash, unit, gain, phase   the stepping for which the deficits of its pages were computed
--   moved       1 if a clock that stepped back has moved their ends
--   front       the holds that end with the last write or before: end, ticket, tokens of each
--   heads       the numbers of each page, one page after another: see HEAD. A page is known by its place in this list
--   lists       by a page's id, its holds if they were needed: end, ticket, tokens of each
--   bytes       by a page's id, the same as stored bytes
--   stale       by a page's id, whether its field must be written
--   removed     the key's fields to delete
--   in_pages   the tokens in all pages
--   held        the tokens that are held now, in pages and in front; prune sets it
--   text        the heads as they were stored
--   changed     by place, whether a head is no longer as in text
--   repack      whether pages were added or removed: then text is of no use
--   first       when the first hold in a page ends, if known
--   passed      how far wait_around has got, if nothing has changed since

-- Whether a hold holds its tokens at an instant. In the microsecond of its end
-- a hold still holds them: they are used after everything else in it. A
-- reservation that was due when it was made holds nothing, but can still be
-- cancelled.
local function holds_at(at, ends, ticket)
  return ends > at or ends == at and (ticket < AT_ONCE or ticket >= FIRST_LEASE)
end

-- How many tokens a list holds at an instant
local function held_at(list, at)
  local tokens = 0
  for i = 1, #list, 3 do
    tokens = tokens + (holds_at(at, list[i], list[i + 1]) and list[i + 2] or 0)
  end
  return tokens
end

-- Unpacks the format `each` so many times. Returns the numbers, and where they
-- end.
local function unpack_all(each, count, text, from)
  if count == 0 then
    return {}, from
  end
  local list = { unpack('>' .. each:rep(count), text, from) }
  local last = #list
  local to = list[last]
  list[last] = nil
  return list, to
end

-- Reads the holds of the limit `tag` that are at `from`. Returns them and where
-- they end; nil if this script did not write them.
function lib.read(key, tag, state, from)
  if from + HOLDS_SIZE - 1 > #state then
    return nil
  end
  local _, steps_hash, unit, gain, phase, moved, front, pages, first, at = unpack(HOLDS, state, from)
  if front + pages == 0 or at + front * HOLD_SIZE + pages * PAGE_SIZE - 1 > #state then
    return nil
  end
  local holds = {
    key = key, tag = tag, steps_hash = steps_hash, unit = unit, gain = gain, phase = phase, moved = moved, first = first,
    front = false, heads = false, in_pages = 0, held = 0, lists = {}, bytes = {}, stale = {}, removed = false, passed = false,
    text = '', changed = {}, repack = false,
  }
  holds.front, at = unpack_all('I7I7I7', front, state, at)
  local heads
  heads, at = unpack_all('I2I2I7I7I7I7I7', pages, state, at)
  local in_pages, all = 0, 0
  for i = 3, 3 * front, 3 do
    all = all + holds.front[i]
  end
  for b = 1, HEAD * pages, HEAD do
    in_pages = in_pages + heads[b + ITS_TOKENS]
  end
  holds.heads, holds.in_pages, holds.text = heads, in_pages, state:sub(at - pages * PAGE_SIZE, at - 1)
  if all + in_pages <= MAX_HELD then
    return holds, at
  end
end

-- Makes holds of a list. Those that end at the instant `at` or before are in
-- front. The others are one page of any size, without a stepping: prune divides
-- it.
function lib.holds_of(key, tag, list, at)
  local holds = {
    key = key, tag = tag, moved = 0, front = {}, heads = {}, in_pages = 0, held = 0, lists = {}, bytes = {}, stale = {},
    text = '', changed = {}, repack = false,
  }
  local later = {}
  for i = 1, #list, 3 do
    if list[i] <= at then
      local front = holds.front
      front[#front + 1], front[#front + 2], front[#front + 3] = list[i], list[i + 1], list[i + 2]
    else
      later[#later + 1] = { list[i], list[i + 1], list[i + 2], i }
      holds.in_pages = holds.in_pages + list[i + 2]
    end
  end
  table.sort(later, function(a, b)
    for i = 1, 4 do
      if i ~= 3 and a[i] ~= b[i] then
        return a[i] < b[i]
      end
    end
    return false
  end)
  local entries = {}
  for i, hold in ipairs(later) do
    entries[3 * i - 2], entries[3 * i - 1], entries[3 * i] = hold[1], hold[2], hold[3]
  end
  if entries[1] then
    holds.first, holds.lists[0] = entries[1], entries
    holds.repack = true
    holds.heads = { 0, #later, holds.in_pages, entries[#entries - 2], entries[#entries - 1], 0, FOREVER }
  end
  return holds
end

-- The holds of the page at b as they are stored
local function bytes_of(holds, b)
  local id, count = holds.heads[b], holds.heads[b + ITS_COUNT]
  local stored = holds.bytes[id]
  if stored then
    return stored
  elseif holds.lists[id] then
    stored = pack('>' .. ('I7I7I7'):rep(count), values(holds.lists[id]))
  else
    stored = pcall('HGET', holds.key, pack(FIELD, holds.tag, id))
    if type(stored) ~= 'string' or #stored < count * HOLD_SIZE then
      broken, stored = true, pack(HOLD, holds.heads[b + ITS_END], holds.heads[b + ITS_TICKET], 1):rep(count)
    end
    if #stored > count * HOLD_SIZE then -- the first ones have ended
      stored = stored:sub(-count * HOLD_SIZE)
    end
  end
  holds.bytes[id] = stored
  return stored
end

-- The holds of the page at b: end, ticket and tokens of each
local function list_of(holds, b)
  local id = holds.heads[b]
  local list = holds.lists[id]
  if not list then
    list = unpack_all('I7I7I7', holds.heads[b + ITS_COUNT], bytes_of(holds, b), 1)
    holds.lists[id] = list
  end
  return list
end

-- When the first hold of the pages ends
local function first_end(holds)
  if not holds.first then
    local id = holds.heads[1]
    holds.first = holds.lists[id] and holds.lists[id][1] or unpack(HOLD, bytes_of(holds, 1), 1)
  end
  return holds.first
end

-- The holds of a limit as they are stored behind its level; nil if there are
-- none
function lib.text(limit)
  local holds = limit.holds
  local front, heads = holds.front, holds.heads
  if #front + #heads == 0 then
    return nil
  end
  local pages = #heads / HEAD
  local text = holds.text
  if holds.repack then
    text = pack('>' .. ('I2I2I7I7I7I7I7'):rep(pages), values(heads))
  end
  for b in pairs(holds.repack and {} or holds.changed) do
    local at = (b - 1) / HEAD * PAGE_SIZE
    text = text:sub(1, at) .. pack(PAGE, values(heads, b, b + HEAD - 1)) .. text:sub(at + PAGE_SIZE + 1)
  end
  return pack(HOLDS, 0, holds.steps_hash, holds.unit, holds.gain, holds.phase, holds.moved, #front / 3, pages, pages > 0 and first_end(holds) or 0)
    .. pack('>' .. ('I7'):rep(#front), values(front)) .. text
end

-- Stores the records of a key, the fields in `pages`, and the pages of these
-- limits that have changed, and returns the server's error if it refuses. The
-- key becomes a hash if it is not one yet.
function lib.store(s, records, limits, pages, ttl)
  local key, set = s.key, nil
  if not s.hashed then
    set = pcall('PEXPIRE', key, ttl) -- before anything is lost: the server may not let this script use it
    if type(set) == 'table' then
      return set
    end
  end
  local fields = { '', records, values(pages or {}) }
  for _, limit in ipairs(limits) do
    local holds = limit.holds
    for b = 1, holds and #holds.heads or 0, HEAD do
      local id = holds.heads[b]
      if holds.stale[id] then
        fields[#fields + 1] = pack(FIELD, limit.tag, id)
        fields[#fields + 1] = bytes_of(holds, b)
      end
    end
  end
  if s.hashed and s.removed[1] then
    pcall('HDEL', key, values(s.removed))
  end
  set = pcall('HSET', key, values(fields))
  if not s.hashed and type(set) == 'table' and set.err:find('^%-?WRONGTYPE') then
    pcall('DEL', key)
    set = pcall('HSET', key, values(fields))
  end
  if type(set) == 'table' then
    return set
  end
  return pcall('PEXPIRE', key, ttl)
end

-- Returns a copy of a key that is a hash, for restore.
function lib.copy(key)
  return { fields = pcall('HGETALL', key), ttl = pcall('PTTL', key) }
end

-- Makes a key what it was when `copy` was made.
function lib.restore(key, copy)
  pcall('DEL', key)
  pcall('HSET', key, values(copy.fields))
  pcall('PEXPIRE', key, copy.ttl)
end
