-- Slots in use (in Go: holds). They are in the order of their ends, as records in a text: RECORD in constants.lua. Functions of
-- `s`, the slots of one limit: { tag, used = tokens, entries = text }.
slots_lib = slots_lib or (function()
  local lib = {}

  -- Reads the slots whose record is at a place of the state. Returns them without those that have ended, where the next record is, and
  -- when they were written; nil if this script did not write them.
  function lib.read(state, place)
    if place + RECORD_SIZE - 1 > #state then
      return nil
    end
    local tag, count, used, written, _, _, pace = unpack(RECORD, state, place)
    local first, behind = place + RECORD_SIZE, place + RECORD_SIZE * (count + 1)
    if behind - 1 > #state or pace ~= 1 or written >= FOREVER or not (used >= 0 and used <= MAX_HELD) then
      return nil
    end
    while first < behind do
      local same, _, tokens, ends = unpack(RECORD, state, first)
      if same ~= tag then
        return nil
      elseif ends >= now or written > now then -- a clock that stepped back ends none
        break
      end
      used, first = used - tokens, first + RECORD_SIZE
    end
    return { tag = tag, used = used, entries = state:sub(first, behind - 1) }, behind, written
  end

  -- Where the entry with a ticket begins; nil if there is none
  local function find(s, ticket)
    local bytes = pack('>I7', ticket):sub(-TICKET_SIZE)
    local at = 1
    while true do
      at = s.entries:find(bytes, at, true)
      if not at then
        return nil
      elseif at % RECORD_SIZE == TICKET_AT then
        local _, _, _, _, same = unpack(RECORD, s.entries, at - TICKET_AT + 1)
        if same == ticket then
          return at - TICKET_AT + 1
        end
      end
      at = at + 1
    end
  end

  -- Moves the ends of all back with a clock that stepped back, so that they keep their remaining time.
  function lib.move(s, back)
    local moved = {}
    for at = 1, #s.entries, RECORD_SIZE do
      local _, _, tokens, ends, ticket = unpack(RECORD, s.entries, at)
      moved[#moved + 1] = pack(RECORD, s.tag, 0, tokens, ends - back, ticket, 0, 0)
    end
    s.entries = table.concat(moved)
  end

  -- Ends the hold with a ticket. Returns its tokens; nil if there is none.
  function lib.finish(s, ticket)
    local at = find(s, ticket)
    if not at then
      return nil
    end
    local _, _, tokens = unpack(RECORD, s.entries, at)
    s.entries, s.used = s.entries:sub(1, at - 1) .. s.entries:sub(at + RECORD_SIZE), s.used - tokens
    return tokens
  end

  -- Adds a hold. It usually ends last.
  function lib.add(s, ends, ticket, tokens)
    local low, high = 0, #s.entries / RECORD_SIZE
    local last = high > 0 and lib.last_end(s) or 0
    if ends < last then
      while low < high do -- how many entries end before it, or with it
        local middle = (low + high - (low + high) % 2) / 2
        local _, _, _, at = unpack(RECORD, s.entries, middle * RECORD_SIZE + 1)
        if at <= ends then
          low = middle + 1
        else
          high = middle
        end
      end
    end
    local entry = pack(RECORD, s.tag, 0, tokens, ends, ticket, 0, 0)
    if ends >= last then
      s.entries = s.entries .. entry
    else
      s.entries = s.entries:sub(1, low * RECORD_SIZE) .. entry .. s.entries:sub(low * RECORD_SIZE + 1)
    end
    s.used = s.used + tokens
  end

  -- When the last hold ends, of which there must be one
  function lib.last_end(s)
    local _, _, _, ends = unpack(RECORD, s.entries, #s.entries - RECORD_SIZE + 1)
    return ends
  end

  -- µs until `need` slots of a capacity are free if none is released
  function lib.wait(s, capacity, need)
    local free, at = capacity - s.used, 1
    if free >= need then
      return 0
    end
    while at <= #s.entries do
      local _, _, tokens, ends = unpack(RECORD, s.entries, at)
      free, at = free + tokens, at + RECORD_SIZE
      if free >= need then
        return ends + 1 - now
      end
    end
    return FOREVER
  end

  -- When nothing is held any more
  function lib.ends(s)
    return s.entries ~= '' and lib.last_end(s) + 1 or now
  end

  -- The record and the entries to store
  function lib.text(s, capacity)
    return pack(RECORD, s.tag, #s.entries / RECORD_SIZE, s.used, now, lib.ends(s), capacity, 1) .. s.entries
  end

  return lib
end)()
