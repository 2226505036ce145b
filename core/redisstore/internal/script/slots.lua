-- Slots in use (in Go: Holds). They are stored as other holds are, in blocks: see constants.lua. But a decision on slots works on the bytes of one
-- block, and needs no deficits. The slots of a limit are a table:
--   key, tag
--   used      the tokens in all blocks
--   heads     the numbers of each block, one block after another: see HEAD
--   bytes     by a block's id, its holds if they were needed, as stored
--   stale     by a block's id, whether its field must be written
--   gone      by a block's id, whether its field must be deleted
--   first     when the first hold ends, if known
--   broken    whether the holds of a block are missing or unreadable
slots_lib = slots_lib or (function()
  local lib = {}

  -- The slots of a limit without any in use
  function lib.none(key, tag)
    return { key = key, tag = tag, used = 0, heads = {}, bytes = {}, stale = {}, gone = {}, first = false, broken = false }
  end

  -- The holds of the block at b
  local function bytes_of(s, b)
    local id, count = s.heads[b], s.heads[b + ITS_COUNT]
    local bytes = s.bytes[id]
    if not bytes then
      bytes = pcall('HGET', s.key, pack(FIELD, s.tag, id))
      if type(bytes) ~= 'string' or #bytes < count * HOLD_SIZE then
        s.broken, bytes = true, pack(HOLD, s.heads[b + ITS_END], s.heads[b + ITS_TICKET], 1):rep(count)
      end
      if #bytes > count * HOLD_SIZE then -- the first ones have ended
        bytes = bytes:sub(-count * HOLD_SIZE)
      end
      s.bytes[id] = bytes
    end
    return bytes
  end

  local function drop(s, b)
    local id = s.heads[b]
    for _ = 1, HEAD do
      table.remove(s.heads, b)
    end
    s.bytes[id], s.stale[id], s.gone[id] = nil, nil, true
    if b == 1 then
      s.first = false
    end
  end

  -- Gives the block at b other holds, of so many tokens.
  local function set(s, b, bytes, tokens)
    local heads, id = s.heads, s.heads[b]
    heads[b + ITS_COUNT], heads[b + ITS_TOKENS] = #bytes / HOLD_SIZE, tokens
    heads[b + ITS_END], heads[b + ITS_TICKET] = unpack(HOLD, bytes, #bytes - HOLD_SIZE + 1)
    s.bytes[id], s.stale[id], s.gone[id] = bytes, true, nil
    if b == 1 then
      s.first = unpack(HOLD, bytes, 1)
    end
  end

  -- Makes a block, with an id that is not in use, and inserts it at b.
  local function insert(s, b, bytes, tokens)
    local heads, id, used = s.heads, 1, {}
    for other = 1, #heads, HEAD do
      used[heads[other]] = true
    end
    while used[id] do
      id = id + 1
    end
    for i = HEAD, 1, -1 do
      table.insert(heads, b, i == 1 and id or 0)
    end
    set(s, b, bytes, tokens)
  end

  -- Reads the slots whose record is at a place of the state, and drops those that have ended. Returns them, where the next record is,
  -- when they were written, and until when they mattered; nil if this script did not write them.
  function lib.read(state, place, key)
    if place + RECORD_SIZE - 1 > #state then
      return nil
    end
    local tag, _, _, written, matters = unpack(RECORD, state, place)
    local s, at = lib.none(key, tag), place + RECORD_SIZE
    if state:sub(at, at + 3) ~= NO_TAG then
      return s, at, written, matters
    elseif at + HOLDS_SIZE - 1 > #state then
      return nil
    end
    local _, _, _, _, _, _, front, blocks, first = unpack(HOLDS, state, at)
    at = at + HOLDS_SIZE
    local behind = at + blocks * BLOCK_SIZE
    if front > 0 or blocks == 0 or behind - 1 > #state then
      return nil
    end
    local heads = { unpack('>' .. ('I2I2I7I7I7I7I7'):rep(blocks), state, at) }
    heads[#heads] = nil -- where they end
    for b = 1, #heads, HEAD do
      s.used = s.used + heads[b + ITS_TOKENS]
    end
    s.heads, s.first = heads, first
    if written > now then -- the clock has stepped back: none has ended
      return s, behind, written, matters
    end
    while heads[1] and heads[1 + ITS_END] < now do
      s.used = s.used - heads[1 + ITS_TOKENS]
      drop(s, 1)
    end
    if heads[1] and lib.first_end(s) < now then
      local bytes, from, ended = bytes_of(s, 1), 1, 0
      while true do
        local ends, _, tokens = unpack(HOLD, bytes, from)
        if ends >= now then
          break
        end
        from, ended = from + HOLD_SIZE, ended + tokens
      end
      local stale = s.stale[heads[1]]
      s.used = s.used - ended
      set(s, 1, bytes:sub(from), heads[1 + ITS_TOKENS] - ended)
      s.stale[heads[1]] = stale -- its field may keep the ended ones
    end
    return s, behind, written, matters
  end

  -- Moves the ends of all back with a clock that stepped back, so that they keep their remaining time.
  function lib.move(s, back)
    for b = 1, #s.heads, HEAD do
      local bytes, moved = bytes_of(s, b), {}
      for at = 1, #bytes, HOLD_SIZE do
        local ends, ticket, tokens = unpack(HOLD, bytes, at)
        moved[#moved + 1] = pack(HOLD, ends - back, ticket, tokens)
      end
      set(s, b, table.concat(moved), s.heads[b + ITS_TOKENS])
    end
  end

  -- Where the hold with a ticket is in the block at b; nil if it is not
  local function find(s, b, ticket)
    local bytes, last, at = bytes_of(s, b), pack('>I7', ticket):sub(-TICKET_SIZE), 1
    while true do
      at = bytes:find(last, at, true)
      if not at then
        return nil
      elseif at % HOLD_SIZE == TICKET_AT then
        local _, same = unpack(HOLD, bytes, at - TICKET_AT + 1)
        if same == ticket then
          return at - TICKET_AT + 1
        end
      end
      at = at + 1
    end
  end

  -- Ends the hold with a ticket, which probably ends at an instant by itself. Returns its tokens; nil if there is none.
  function lib.finish(s, ticket, ends)
    local heads, b = s.heads, 1
    while heads[b] and heads[b + ITS_END] < ends do
      b = b + HEAD
    end
    local at = heads[b] and find(s, b, ticket)
    if not at then -- the clock, a Hold or another definition has moved it
      b = 1
      while heads[b] do
        at = find(s, b, ticket)
        if at then
          break
        end
        b = b + HEAD
      end
    end
    if not at then
      return nil
    end
    local bytes = s.bytes[heads[b]]
    local _, _, tokens = unpack(HOLD, bytes, at)
    bytes = bytes:sub(1, at - 1) .. bytes:sub(at + HOLD_SIZE)
    s.used = s.used - tokens
    if bytes == '' then
      drop(s, b)
      return tokens
    end
    local left, next = heads[b + ITS_TOKENS] - tokens, b + HEAD
    if heads[next] and heads[b + ITS_COUNT] + heads[next + ITS_COUNT] <= SLOT_BLOCK then -- make one block of the two
      bytes, left = bytes .. bytes_of(s, next), left + heads[next + ITS_TOKENS]
      drop(s, next)
    end
    set(s, b, bytes, left)
    return tokens
  end

  -- Adds a hold, which usually ends last.
  function lib.add(s, ends, ticket, tokens)
    local heads, hold = s.heads, pack(HOLD, ends, ticket, tokens)
    local b = #heads - HEAD + 1
    s.used = s.used + tokens
    if b < 1 or ends >= heads[b + ITS_END] then
      if b > 0 and heads[b + ITS_COUNT] < SLOT_BLOCK then
        set(s, b, bytes_of(s, b) .. hold, heads[b + ITS_TOKENS] + tokens)
      else
        insert(s, b + HEAD > 0 and b + HEAD or 1, hold, tokens)
      end
      return
    end
    while b > HEAD and heads[b - HEAD + ITS_END] > ends do
      b = b - HEAD
    end
    local bytes, at = bytes_of(s, b), 1
    while (unpack(HOLD, bytes, at)) <= ends do
      at = at + HOLD_SIZE
    end
    bytes = bytes:sub(1, at - 1) .. hold .. bytes:sub(at)
    local all = heads[b + ITS_TOKENS] + tokens
    if #bytes > SLOT_BLOCK * HOLD_SIZE then
      local half, later = #bytes / HOLD_SIZE / 2, 0
      half = (half - half % 1) * HOLD_SIZE
      for i = half + 1, #bytes, HOLD_SIZE do
        local _, _, n = unpack(HOLD, bytes, i)
        later = later + n
      end
      insert(s, b + HEAD, bytes:sub(half + 1), later)
      bytes, all = bytes:sub(1, half), all - later
    end
    set(s, b, bytes, all)
  end

  -- When the first hold ends, of which there must be one
  function lib.first_end(s)
    s.first = s.first or unpack(HOLD, bytes_of(s, 1), 1)
    return s.first
  end

  -- When nothing is held any more
  function lib.ends(s)
    local heads = s.heads
    return heads[1] and heads[#heads - HEAD + 1 + ITS_END] + 1 or now
  end

  -- µs until `need` slots of a capacity are free if none is released
  function lib.wait(s, capacity, need)
    local free, heads = capacity - s.used, s.heads
    if free >= need then
      return 0
    elseif need - free == 1 and heads[1] then
      return lib.first_end(s) + 1 - now
    end
    for b = 1, #heads, HEAD do
      if free + heads[b + ITS_TOKENS] >= need then
        local bytes = bytes_of(s, b)
        for at = 1, #bytes, HOLD_SIZE do
          local ends, _, tokens = unpack(HOLD, bytes, at)
          free = free + tokens
          if free >= need then
            return ends + 1 - now
          end
        end
      end
      free = free + heads[b + ITS_TOKENS]
    end
    return FOREVER
  end

  -- Adds the fields to delete to a list.
  function lib.removed(s, list)
    for id in pairs(s.gone) do
      list[#list + 1] = pack(FIELD, s.tag, id)
    end
  end

  -- What is stored of a limit: its record and the heads. The fields of blocks are added to a list.
  function lib.text(s, record, fields)
    for id in pairs(s.stale) do
      fields[#fields + 1], fields[#fields + 2] = pack(FIELD, s.tag, id), s.bytes[id]
    end
    local heads = s.heads
    if not heads[1] then
      return record
    end
    local blocks = #heads / HEAD
    return record .. pack(HOLDS, 0, 0, 1, 1, 0, 0, 0, blocks, lib.first_end(s)) .. pack('>' .. ('I2I2I7I7I7I7I7'):rep(blocks), values(heads))
  end

  return lib
end)()
