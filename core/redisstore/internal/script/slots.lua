-- Slots in use (in Go: Holds). They are stored in pages, as other holds are:
-- see constants.lua. But they need no deficits, and a decision unpacks only the
-- heads and holds that it needs. The slots of a limit are a table:
--   key, tag
--   used     how many are in use
--   pages   how many pages there are
--   heads    a text that has the heads of the pages, as stored, from `at` on
--   first    when the first hold ends
--   bytes    by a page's id, its holds if they were needed, as stored
--   stale    by a page's id, whether its field must be written
--   gone     by a page's id, whether its field must be deleted
--   broken   whether the holds of a page are missing or unreadable
slots_lib = slots_lib or (function()
  local lib = {}

  -- The slots of a limit without any in use
  function lib.none(key, tag)
    return { key = key, tag = tag, used = 0, pages = 0, heads = '', at = 1, first = 0, bytes = {}, stale = {}, gone = {}, broken = false }
  end

  -- The head of a page: id, how many holds, their tokens, end and ticket of the
  -- last
  local function head(s, b)
    return unpack(PAGE, s.heads, s.at + (b - 1) * PAGE_SIZE)
  end

  -- The holds of a page
  local function bytes_of(s, b)
    local id, count, _, ends, ticket = head(s, b)
    local bytes = s.bytes[id]
    if not bytes then
      bytes = pcall('HGET', s.key, pack(FIELD, s.tag, id))
      if type(bytes) ~= 'string' or #bytes < count * HOLD_SIZE then
        s.broken, bytes = true, pack(HOLD, ends, ticket, 1):rep(count)
      end
      if #bytes > count * HOLD_SIZE then -- the first ones have ended
        bytes = bytes:sub(-count * HOLD_SIZE)
      end
      s.bytes[id] = bytes
    end
    return bytes, id
  end

  -- Puts heads in place of those of `count` pages from b on.
  local function replace(s, b, count, heads)
    local from, behind = s.at + (b - 1) * PAGE_SIZE, s.at + s.pages * PAGE_SIZE
    s.heads = s.heads:sub(s.at, from - 1) .. heads .. s.heads:sub(from + count * PAGE_SIZE, behind - 1)
    s.pages, s.at = #s.heads / PAGE_SIZE, 1
  end

  local function drop(s, b)
    local id = head(s, b)
    replace(s, b, 1, '')
    s.bytes[id], s.stale[id], s.gone[id] = nil, nil, true
    if b == 1 then
      s.first = s.pages > 0 and unpack(HOLD, (bytes_of(s, 1)), 1) or 0
    end
  end

  -- Gives a page other holds, of so many tokens. `count` is 0 for a new page.
  local function set(s, b, count, id, bytes, tokens)
    local ends, ticket = unpack(HOLD, bytes, #bytes - HOLD_SIZE + 1)
    replace(s, b, count, pack(PAGE, id, #bytes / HOLD_SIZE, tokens, ends, ticket, 0, 0))
    s.bytes[id], s.stale[id], s.gone[id] = bytes, true, nil
    if b == 1 then
      s.first = unpack(HOLD, bytes, 1)
    end
  end

  -- Inserts a page, with an id that is not in use.
  local function insert(s, b, bytes, tokens)
    local used, id = {}, 1
    for other = 1, s.pages do
      used[head(s, other)] = true
    end
    while used[id] do
      id = id + 1
    end
    set(s, b, 0, id, bytes, tokens)
  end

  -- Reads the slots whose record is at a place of the state, and drops those
  -- that have ended. Returns them, where the next record is, when they were
  -- written, and until when they mattered; nil if this script did not write
  -- them.
  function lib.read(state, place, key)
    if place + RECORD_SIZE - 1 > #state then
      return nil
    end
    local tag, _, _, capacity, _, _, _, level, written, matters = unpack(RECORD, state, place)
    local s, at = lib.none(key, tag), place + RECORD_SIZE
    if state:sub(at, at + 3) ~= NO_TAG then
      return s, at, written, matters
    elseif at + HOLDS_SIZE - 1 > #state then
      return nil
    end
    local _, _, _, _, _, _, front, pages, first = unpack(HOLDS, state, at)
    at = at + HOLDS_SIZE
    local behind = at + pages * PAGE_SIZE
    if front > 0 or pages == 0 or behind - 1 > #state then
      return nil
    end
    s.used, s.pages, s.heads, s.at, s.first = capacity - level + ZERO_UNITS, pages, state, at, first
    while written <= now and s.pages > 0 and s.first < now do -- a clock that stepped back ends none
      local id, _, tokens, ends = head(s, 1)
      if ends < now then
        s.used = s.used - tokens
        drop(s, 1)
      else
        local bytes, from, ended = bytes_of(s, 1), 1, 0
        while true do
          local at_, _, n = unpack(HOLD, bytes, from)
          if at_ >= now or s.broken then
            break
          end
          from, ended = from + HOLD_SIZE, ended + n
        end
        if s.broken then
          break
        end
        local stale = s.stale[id]
        s.used = s.used - ended
        set(s, 1, 1, id, bytes:sub(from), tokens - ended)
        s.stale[id] = stale -- its field may keep the ended ones
      end
    end
    return s, behind, written, matters
  end

  -- Moves the ends of all back with a clock that stepped back, so that they
  -- keep their remaining time.
  function lib.move(s, back)
    for b = 1, s.pages do
      local bytes, id = bytes_of(s, b)
      local _, _, tokens = head(s, b)
      local moved = {}
      for at = 1, #bytes, HOLD_SIZE do
        local ends, ticket, n = unpack(HOLD, bytes, at)
        moved[#moved + 1] = pack(HOLD, ends - back, ticket, n)
      end
      set(s, b, 1, id, table.concat(moved), tokens)
    end
  end

  -- The first page that does not end before an instant, or the last one
  local function page_at(s, ends)
    local low, high = 1, s.pages
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      local _, _, _, last = head(s, middle)
      if last < ends then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  -- Where the hold with a ticket is in a page; nil if it is not
  local function find(s, b, ticket)
    local bytes, last, at = bytes_of(s, b), pack('>I7', ticket):sub(-TICKET_SIZE), 0
    while true do
      at = bytes:find(last, at + 1, true)
      if not at then
        return nil
      elseif at % HOLD_SIZE == TICKET_AT then
        local _, same = unpack(HOLD, bytes, at - TICKET_AT + 1)
        if same == ticket then
          return at - TICKET_AT + 1
        end
      end
    end
  end

  -- Ends the hold with a ticket, which probably ends at an instant by itself.
  -- Returns its tokens; nil if there is none.
  function lib.finish(s, ticket, ends)
    if s.pages == 0 then
      return nil
    end
    local b = page_at(s, ends)
    local at = find(s, b, ticket)
    if not at then -- the clock, a Hold or another definition has moved it
      b = 0
      while not at and b < s.pages do
        b = b + 1
        at = find(s, b, ticket)
      end
      if not at then
        return nil
      end
    end
    local bytes, id = bytes_of(s, b)
    local _, count, left = head(s, b)
    local _, _, tokens = unpack(HOLD, bytes, at)
    s.used, left = s.used - tokens, left - tokens
    if count == 1 then
      drop(s, b)
      return tokens
    end
    bytes = bytes:sub(1, at - 1) .. bytes:sub(at + HOLD_SIZE)
    if b < s.pages then
      local _, others, more = head(s, b + 1)
      if count - 1 + others <= SLOT_PAGE then -- make one page of the two
        bytes, left = bytes .. bytes_of(s, b + 1), left + more
        drop(s, b + 1)
      end
    end
    set(s, b, 1, id, bytes, left)
    return tokens
  end

  -- Adds a hold, which usually ends last.
  function lib.add(s, ends, ticket, tokens)
    local hold, b = pack(HOLD, ends, ticket, tokens), s.pages
    s.used = s.used + tokens
    if b == 0 then
      return insert(s, 1, hold, tokens)
    end
    local id, count, all, last = head(s, b)
    if ends >= last and count >= SLOT_PAGE then
      return insert(s, b + 1, hold, tokens)
    elseif ends >= last then
      return set(s, b, 1, id, bytes_of(s, b) .. hold, all + tokens)
    end
    b = page_at(s, ends + 1)
    id, count, all = head(s, b)
    local bytes, at = bytes_of(s, b), 1
    while (unpack(HOLD, bytes, at)) <= ends do
      at = at + HOLD_SIZE
    end
    bytes, all = bytes:sub(1, at - 1) .. hold .. bytes:sub(at), all + tokens
    if count >= SLOT_PAGE then -- it becomes two
      local half, later = (count - count % 2) / 2 * HOLD_SIZE, 0
      for i = half + 1, #bytes, HOLD_SIZE do
        local _, _, n = unpack(HOLD, bytes, i)
        later = later + n
      end
      insert(s, b + 1, bytes:sub(half + 1), later)
      bytes, all = bytes:sub(1, half), all - later
    end
    set(s, b, 1, id, bytes, all)
  end

  -- When nothing is held any more
  function lib.ends(s)
    if s.pages == 0 then
      return now
    end
    local _, _, _, last = head(s, s.pages)
    return last + 1
  end

  -- µs until `need` slots of a capacity are free if none is released
  function lib.wait(s, capacity, need)
    local free = capacity - s.used
    if free >= need then
      return 0
    elseif need - free == 1 and s.pages > 0 then
      return s.first + 1 - now
    end
    for b = 1, s.pages do
      local _, _, tokens = head(s, b)
      if free + tokens >= need then
        local bytes = bytes_of(s, b)
        for at = 1, #bytes, HOLD_SIZE do
          local ends, _, n = unpack(HOLD, bytes, at)
          free = free + n
          if free >= need then
            return ends + 1 - now
          end
        end
      end
      free = free + tokens
    end
    return FOREVER
  end

  -- Adds what to write of the pages to `fields`, and what to delete to
  -- `removed`. Returns what follows the limit's record, in two parts: long
  -- texts cost as much as all else.
  function lib.text(s, fields, removed)
    for id in pairs(s.stale) do
      fields[#fields + 1], fields[#fields + 2] = pack(FIELD, s.tag, id), s.bytes[id]
    end
    for id in pairs(s.gone) do
      removed[#removed + 1] = pack(FIELD, s.tag, id)
    end
    if s.pages == 0 then
      return '', ''
    end
    if #s.heads > s.pages * PAGE_SIZE then
      replace(s, 1, 0, '')
    end
    return pack(HOLDS, 0, 0, 1, 1, 0, 0, 0, s.pages, s.first), s.heads
  end

  return lib
end)()
