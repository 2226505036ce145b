-- Refills and waits in a bucket with holds, adds and removes them (in Go:
-- holds.go). hold.go says what a hold is: tokens of a reservation or on lease,
-- which still count against the Capacity. hold_record.lua has the table of a
-- limit's holds.

-- The table of a limit without holds
local function new(s, limit)
  local holds = lib.holds_of(s.key, limit.tag, {}, now)
  holds.removed = s.removed
  set_stepping(limit, holds)
  return holds
end

-- How many tokens are held now
local function held_now(holds)
  local heads, held = holds.heads, held_at(holds.front, now)
  for b = #heads - HEAD + 1, 1, -HEAD do
    local tokens = heads[b + ITS_TOKENS]
    if heads[b + ITS_END] < now then
      break
    elseif b == 1 and first_end(holds) <= now or b > 1 and heads[b - HEAD + ITS_END] <= now then -- some of its holds may have ended
      tokens = held_at(list_of(holds, b), now)
    end
    held = held + tokens
  end
  return held
end

lib.held_now = held_now

-- How high the level can be now
function lib.room(limit)
  return room(limit, held_now(limit.holds))
end

-- refill of a bucket with holds. These and the level were written at the
-- instant `written`; `cut` is what is cut from the level.
function lib.refill_around(limit, level, at, written, cut)
  local holds = limit.holds
  local front, held, b = holds.front, held_at(holds.front, written) + holds.in_pages, nil
  for i = 1, #front, 3 do
    if front[i] < now and holds_at(written, front[i], front[i + 1]) then
      level, at = refill_cut(limit, level, at, front[i], room(limit, held), held, cut)
      level, held = end_hold(limit, front, i, level, held, cut)
    end
  end
  level, at, held, b = refill_through_pages(limit, holds, 1, level, at, held, now, math.huge, cut)
  if holds.heads[b] and (b > 1 or first_end(holds) < now) then -- some of its holds may have ended
    level, at = refill_through(limit, list_of(holds, b), 1, level, at, now, held, cut)
  end
  held = held_now(holds)
  return refill_cut(limit, level, at, now, room(limit, held), held, cut)
end

-- Drops the holds that ended before now. The others get pages for the stepping
-- of the limit's level.
function lib.prune(limit)
  local holds, front = limit.holds, {}
  local heads = holds.heads
  for i = 1, #holds.front, 3 do
    if holds.front[i] >= now then
      front[#front + 1], front[#front + 2], front[#front + 3] = holds.front[i], holds.front[i + 1], holds.front[i + 2]
    end
  end
  local same = fits(limit, holds, limit.at)
  set_stepping(limit, holds)
  while heads[1] and first_end(holds) <= now do
    local list = heads[1 + ITS_END] >= now and list_of(holds, 1) or {}
    local ended = 1
    while list[ended] and list[ended] <= now do
      if list[ended] == now then
        front[#front + 1], front[#front + 2], front[#front + 3] = now, list[ended + 1], list[ended + 2]
      end
      ended = ended + 3
    end
    holds.in_pages = holds.in_pages - heads[1 + ITS_TOKENS]
    if not list[ended] then
      drop(holds, 1)
    else
      local stale = holds.stale[heads[1]]
      holds.lists[heads[1]] = { values(list, ended) }
      recount(limit, 1)
      holds.in_pages, holds.stale[heads[1]] = holds.in_pages + heads[1 + ITS_TOKENS], stale -- its field may keep the ended ones
    end
  end
  holds.front = front
  if not same then -- another definition wrote them, the steps have begun again, or the clock has moved them
    rebuild(limit)
  end
  holds.held = held_at(front, now) + holds.in_pages
end

-- wait in a bucket with the holds that prune left. The level rises no higher
-- than they leave room, so the wait may last until some of them end. holds.go
-- has an example. A call that needs more than the last one continues where that
-- got to: at holds.passed.
function lib.wait_around(limit, need)
  local level, at, holds = limit.level, limit.at, limit.holds
  if level >= need or not holds then
    return wait(limit, level, at, need, 0)
  end
  local from, since, held, b, passed = level, at, holds.in_pages, 1, holds.passed
  if passed and passed.from == from and passed.since == since and passed.level < need then
    level, at, held, b = passed.level, passed.at, passed.held, passed.b
  else
    for i = 1, #holds.front, 3 do -- which end now
      level = end_hold(limit, holds.front, i, level, held + holds.front[i + 2])
      if level >= need then
        return 1
      end
    end
  end
  while true do
    level, at, held, b = refill_through_pages(limit, holds, b, level, at, held, math.huge, need)
    holds.passed = { from = from, since = since, level = level, at = at, held = held, b = b }
    if not holds.heads[b] then
      break
    end
    local list, gain = list_of(holds, b), gain_of(limit)
    for i = 1, #list, 3 do -- the level reaches `need` before the last of these holds ends
      local most, steps, to = room(limit, held), steps_since(limit, at, list[i])
      local filled = level + steps * gain
      if filled >= need and most >= need then
        return math.min(FOREVER, wait(limit, level, at, need, held))
      end
      level, held = end_hold(limit, list, i, math.min(filled, most), held)
      at = to
      if level >= need then
        return math.min(FOREVER, list[i] + 1 - now)
      end
    end
    b = b + HEAD
  end
  return math.min(FOREVER, wait(limit, level, at, need, held))
end

-- Whether the tokens of a hold may come back to the level when it ends
function lib.returning(holds)
  for i = 2, #holds.front, 3 do
    if returning(holds.front[i]) then
      return true
    end
  end
  for b = 1, #holds.heads, HEAD do
    if returning(holds.heads[b + ITS_TICKET]) or holds.heads[b + ITS_DEFICIT] >= FOREVER then
      return true
    end
  end
  return false
end

-- When the first hold ends, of which there must be one
function lib.first_end(holds)
  return holds.front[1] or first_end(holds)
end

-- How many holds there are
function lib.count(holds)
  local count = #holds.front / 3
  for b = 1, #holds.heads, HEAD do
    count = count + holds.heads[b + ITS_COUNT]
  end
  return count
end

-- `step`, which is one, or if `last` is later, the first step that is not
-- before it. keep.go has an example.
function lib.outlast(limit, step, last)
  if last <= step then
    return step
  elseif limit.starts then
    return math.min(last, FOREVER - 1)
  end
  local steps = math.ceil((math.min(last, FOREVER - 1) - step) / limit.step)
  if step + steps * limit.step >= FOREVER then
    steps = math.floor((FOREVER - 1 - step) / limit.step)
  end
  return step + steps * limit.step
end

-- When the last hold in a page ends, and the next µs begins; 0: there is none
function lib.last_end(holds)
  local heads = holds.heads
  return heads[1] and heads[#heads - HEAD + 1 + ITS_END] + 1 or 0
end

-- Adds a hold, which must end now or later. A page that gets too large becomes
-- two.
local function add(limit, at, ticket, tokens)
  local holds = limit.holds
  local heads = holds.heads
  if holds_at(now, at, ticket) then
    holds.held = holds.held + tokens
  end
  if at <= now then
    local front = holds.front
    front[#front + 1], front[#front + 2], front[#front + 3] = at, ticket, tokens
    return
  end
  holds.in_pages, holds.passed = holds.in_pages + tokens, nil
  local b = page_with(heads, at, ticket)
  local last = b - HEAD
  if heads[b] then
    local list, place = list_of(holds, b), 1
    while list[place] < at or list[place] == at and list[place + 1] < ticket do
      place = place + 3
    end
    table.insert(list, place, tokens)
    table.insert(list, place, ticket)
    table.insert(list, place, at)
    if #list > 3 * MAX_PAGE then
      insert(limit, b + HEAD, { values(list, 3 * MAX_PAGE / 2 + 1) })
      holds.lists[heads[b]] = { values(list, 1, 3 * MAX_PAGE / 2) }
    end
    recount(limit, b)
  elseif last > 0 and heads[last + ITS_COUNT] < MAX_PAGE then -- it ends last, the usual case
    local id, same = heads[last], heads[last + ITS_DEFICIT] < FOREVER and returning(heads[last + ITS_TICKET]) == returning(ticket)
    local gained = (step_number(limit, holds.phase, at) - step_number(limit, holds.phase, heads[last + ITS_END])) * holds.gain
    holds.bytes[id] = bytes_of(holds, last) .. pack(HOLD, at, ticket, tokens)
    holds.lists[id], holds.stale[id], holds.changed[last] = nil, true, true
    heads[last + ITS_COUNT], heads[last + ITS_TOKENS] = heads[last + ITS_COUNT] + 1, heads[last + ITS_TOKENS] + tokens
    heads[last + ITS_END], heads[last + ITS_TICKET] = at, ticket
    heads[last + ITS_DEFICIT] = same and deficit_with(holds, heads[last + ITS_DEFICIT], heads[last + ITS_TOKENS], returning(ticket) and 0 or tokens, gained) or FOREVER
    if ticket < FIRST_LEASE then
      heads[last + ITS_DUE] = at
    end
  else
    insert(limit, b, { at, ticket, tokens })
  end
end

-- The place of the page that has a hold, among those from `first` to `last`,
-- and where the hold is in its list; nil if none has it
local function find_hold(holds, first, last, ticket)
  for b = first, last, HEAD do
    local list = list_of(holds, b)
    for i = 1, #list, 3 do
      if list[i + 1] == ticket then
        return b, i
      end
    end
  end
end

-- Removes the hold that an ending names, and returns its tokens; nil if there
-- is none.
function lib.remove(limit, ending)
  local holds, ticket, at = limit.holds, ending.ticket, ending.at
  local front, heads = holds.front, holds.heads
  for i = 1, #front, 3 do
    if front[i + 1] == ticket or front[i + 1] == ticket + AT_ONCE then
      local ends, own, tokens = table.remove(front, i), table.remove(front, i), table.remove(front, i)
      if holds_at(now, ends, own) then
        holds.held = holds.held - tokens
      end
      return tokens
    end
  end
  if returning(ticket) then
    at = at + limit.hold - 1
  end
  local first = page_with(heads, at, ticket)
  local b, i = find_hold(holds, first, math.min(first, #heads), ticket)
  if not b or list_of(holds, b)[i] ~= at then
    if holds.moved == 0 and not returning(ticket) then
      return nil
    end
    b, i = find_hold(holds, 1, #heads, ticket) -- its end is not what its owner knows: the clock, a Hold or another definition moved it
    if not b then
      return nil
    end
  end
  local list = list_of(holds, b)
  table.remove(list, i)
  table.remove(list, i)
  local tokens = table.remove(list, i)
  holds.in_pages, holds.held = holds.in_pages - tokens, holds.held - tokens
  if list[1] then
    recount(limit, b)
  else
    drop(holds, b)
  end
  join(limit, b)
  join(limit, b - HEAD)
  return tokens
end

-- Moves the holds of a limit back with the clock: reservations by some steps,
-- or periods of a calendar, and leases and reservations that were due at once
-- by as much as the clock.
function lib.move(limit, steps, periods, back)
  local holds = limit.holds
  local moved = holds.front
  for b = 1, #holds.heads, HEAD do
    for _, number in ipairs(list_of(holds, b)) do
      moved[#moved + 1] = number
    end
  end
  for i = 1, #moved, 3 do
    if moved[i + 1] >= AT_ONCE then
      moved[i] = moved[i] - back
    elseif limit.starts then
      moved[i] = math.max(moved[i] - back, earlier(limit, moved[i], periods))
    else
      moved[i] = moved[i] - steps
    end
  end
  while holds.heads[1] do
    drop(holds, 1)
  end
  limit.holds = lib.holds_of(holds.key, holds.tag, moved, now)
  limit.holds.moved, limit.holds.removed = 1, holds.removed
end
