-- Decides a request with flags without functions, if its limits wrote all of
-- the key's state, not later than now, and hold nothing but slots. It takes
-- another number of tokens from each limit, or takes, holds or releases slots.
-- Then `reply` is its answer, and `from` is where the next request begins. The
-- arithmetic of tokens is that of fast_path.lua.
if action == TAKE_EACH or action == TAKE_HELD or action == ACQUIRE_HELD or action == EXTEND_HELD or action == END_HELD then
  local kept_until, written_at, broken = 0, 0, false
  local extends = action == EXTEND_HELD
  local n_at, _, ticket = from, nil, nil -- where the n of each limit are
  if action % DRY == ACQUIRE then
    _, ticket = unpack(PAIR, requests, n_at)
    n_at = n_at + PAIR_SIZE
  end
  local ending_at, endings = n_at, action < ENDS and 0 or action == END_HELD and times or 1
  n_at = n_at + endings * ENDING_SIZE
  local held_at = action % JOINT >= HELD and n_at + limits * NUMBER_SIZE -- where the hold of each limit is
  local granted, moves, write, place, list = true, false, false, 1, type(state) ~= 'table' and {} or nil
  for j = 1, list and limits or 0 do
    local at_limit = at_limits + (j - 1) * DEFINITION_SIZE
    local definition = sub(requests, at_limit, at_limit + DEFINITION_SIZE - 1)
    local tag, _, aligned, capacity, unit, gain, step = unpack(DEFINITION, definition, 1)
    local n, hold = unpack(NUMBER, requests, n_at + (j - 1) * NUMBER_SIZE), held_at and unpack(NUMBER, requests, held_at + (j - 1) * NUMBER_SIZE)
    local level, at, slots, held, matters = capacity * unit, now, nil, nil, nil -- matters: the stored state, until then
    moves = moves or n > 0
    if aligned == SLOTS then
      include slots
      if state then
        local written, keep
        if sub(state, place, place + 3) == sub(definition, 1, 4) then -- and not what is cut of the limit before
          slots, place, written, keep = slots_lib.read(state, place, key)
        end
        if not slots or written > now or slots.pages > 0 and not hashed then
          list = nil
          break
        end
        kept_until, written_at = math.max(kept_until, keep), math.max(written_at, written)
      else
        slots = slots_lib.none(key, tag)
      end
      for e = 1, endings do
        local ends, began = unpack(ENDING, requests, ending_at + (e - 1) * ENDING_SIZE)
        held = slots_lib.finish(slots, ends, began + hold - 1) or held
      end
      level = capacity - slots.used
      write = write or held or extends and n > 0 and level >= n
    elseif aligned == CALENDAR or hold and hold > 0 and n > 0 or gain > level then
      list = nil
      break
    elseif state then
      if place + RECORD_SIZE - 1 > #state then
        list = nil
        break
      end
      local units, written, keep = unpack(LEVEL, state, place + DEFINITION_SIZE)
      if sub(state, place, place + DEFINITION_SIZE - 1) ~= definition or written > now
        or units > level + ZERO_UNITS or units < ZERO_UNITS - MAX_DEBT or keep >= FOREVER then
        list = nil
        break
      end
      place = place + RECORD_SIZE
      kept_until, written_at = math.max(kept_until, keep), math.max(written_at, written)
      if keep > now then
        local full = level
        matters = keep
        at = written - (aligned == 1 and written or written - keep) % step
        local steps = (now - at) / step
        level = units - ZERO_UNITS + (steps - steps % 1) * gain
        at = aligned == 1 and now or at + (steps - steps % 1) * step
        if level >= full then
          level, at = full, now
        end
      end
    end
    if level < n * unit and not (extends and (held or n == 0) or slots and n == 0) and action ~= END_HELD then
      granted = false
    end
    list[j] = { definition, aligned, capacity, unit, gain, step, level, at, n, slots, held, hold, matters }
  end
  -- A key that is a string becomes a hash in keep.lua.
  if list and (not state or place == #state + 1) and not (action == TAKE_HELD and moves) and not (state and held_at and not hashed) then
    local takes = action ~= END_HELD and granted and moves
    write = write or takes
    local levels, text, waits, busy, last, fields, removed = '', '', '', false, now, { '', '' }, {}
    for j = 1, limits do
      local definition, aligned, capacity, unit, gain, step, level, at, n, slots, held, hold, matters = values(list[j], 1, 13)
      local ask, retry, fills = granted and 1 or n, 0, 0
      if slots then
        if n > 0 and (takes or extends and (held or level >= n)) then
          slots_lib.add(slots, now + hold - 1, ticket, extends and held or n)
          level = capacity - slots.used
        end
        if slots.pages > 0 then
          busy, fills = true, slots_lib.ends(slots) - now
        end
        if ask <= capacity and ask > 0 then
          retry = slots_lib.wait(slots, capacity, ask)
        end
        if write then
          local holds, heads = slots_lib.text(slots, fields, removed)
          text = text .. definition .. pack(LEVEL, level + ZERO_UNITS, now, now + fills) .. holds .. heads
          last = math.max(last, now + fills)
        end
        broken = broken or slots.broken
        levels = levels .. pack(LEVEL, level + ZERO_UNITS, now, now)
      else
        if takes then
          level = level - n * unit
        end
        -- The step with which the limit is full again, and with which it has
        -- what is asked
        local stepped, steps = aligned == 1 and at - at % step or at, (capacity * unit - level) / gain
        local keep = stepped + (steps + -steps % 1) * step
        if level < capacity * unit then
          fills = math.min(FOREVER, keep - now)
        end
        if level < ask * unit and ask <= capacity then
          steps = (ask * unit - level) / gain
          retry = math.min(FOREVER, stepped + (steps + -steps % 1) * step - now)
        end
        if keep >= FOREVER then
          keep = FOREVER - 1 - (FOREVER - 1 - stepped) % step
        end
        if write then
          text, last = text .. definition .. pack(LEVEL, level + ZERO_UNITS, now, keep), math.max(last, keep)
        end
        levels = levels .. pack(LEVEL, level + ZERO_UNITS, write and now or at, write and keep or at)
      end
      local most = matters and not write and matters - now or FOREVER
      waits = waits .. pack(PAIR, math.min(most, retry), math.min(most, fills))
    end
    local set
    if write and not broken then
      local grain, before = GRAIN, GRAIN
      while last - now > FINE * grain do
        grain = COARSER * grain
      end
      while kept_until - written_at > FINE * before do
        before = COARSER * before
      end
      last = last - last % grain + grain
      local ttl = (last - now) / 1000
      ttl = ttl + -ttl % 1 + MARGIN
      ttl = ttl < MAX_INT and format('%d', ttl) or ttl
      if held_at then
        fields[2] = text
        set = pcall('HSET', key, values(fields))
        if type(set) ~= 'table' and removed[1] then
          pcall('HDEL', key, values(removed))
        end
        if type(set) ~= 'table' and not (hashed and last <= kept_until - kept_until % before + before) then
          set = pcall('PEXPIRE', key, ttl)
        end
      else
        set = pcall('SET', key, text, 'PX', ttl)
      end
    end
    if not broken and (type(set) ~= 'table' or set.ok) then
      busy = busy and action ~= END_HELD and not extends
      reply = (granted and (busy and 'a' or action <= TAKE_HELD and not (state or moves) and 'n' or '+') or busy and 'd' or '-') .. levels
      if action % DRY == ACQUIRE then
        reply = reply .. pack(NUMBER, 0)
      end
      reply = busy and reply .. waits or reply
      from = n_at + limits * NUMBER_SIZE * (held_at and 2 or 1)
    end
  end
end
