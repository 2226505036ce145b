-- A page is up to 64 holds that end one after another (in Go: page.go, which
-- explains the deficit). Of most pages a decision needs only the numbers in
-- `heads`, and not the holds.

-- What a step brings to a bucket that is not in debt
local function gain_of(limit)
  return limit.gain < limit.full and limit.gain or limit.full
end

-- How long after a multiple of the step's length the steps of a level begin
local function phase_of(limit, at)
  return limit.aligned and 0 or at % limit.step
end

-- The number of the last step up to an instant. Between two instants there are
-- as many steps as their numbers differ.
local function step_number(limit, phase, at)
  if limit.starts then
    return period(limit, at)
  end
  local steps = (at - phase) / limit.step
  return steps - steps % 1
end

-- Whether the deficits of pages are right for a level at an instant
local function fits(limit, holds, at)
  return not limit.foreign and holds.steps_hash == limit.steps_hash and holds.unit == limit.unit and holds.gain == gain_of(limit) and holds.phase == phase_of(limit, at)
end

-- Sets the stepping of holds, on which deficits depend, to that of the limit's
-- level.
local function set_stepping(limit, holds)
  holds.steps_hash, holds.unit, holds.gain, holds.phase = limit.steps_hash, limit.unit, gain_of(limit), phase_of(limit, limit.at)
end

-- Whether the tokens of a hold come back to the level when it ends
local function returning(ticket)
  return ticket >= FIRST_RETURNING
end

-- Ends the hold that begins at the i-th number of a list, at a level that is
-- that of its end, while `held` tokens are held, its own among them. `cut` is
-- what is cut from the level. Returns the level after it, and what is held
-- then.
local function end_hold(limit, list, i, level, held, cut)
  local tokens = list[i + 2]
  if returning(list[i + 1]) then
    level = give(limit, level, tokens * limit.unit, room(limit, held - tokens), cut)
  end
  return level, held - tokens
end

-- Refills a level past the ends of holds, from the i-th number of a list on,
-- that end before `to`. `held` tokens are held at first. Returns the level, its
-- instant, and what is held then.
local function refill_through(limit, list, i, level, at, to, held, cut)
  while list[i] and list[i] < to do
    level, at = refill_cut(limit, level, at, list[i], room(limit, held), held, cut)
    level, held = end_hold(limit, list, i, level, held, cut)
    i = i + 3
  end
  return level, at, held
end

-- Refills a level through the pages from b on that end before `to`, as long as
-- it stays below `need` at their ends. `held` tokens are held at first, theirs
-- among them. Returns the level, its instant, what is held then, and the first
-- page left. Without a loop over the holds: see refillThroughPage in page.go.
local function refill_through_pages(limit, holds, b, level, at, held, to, need, cut)
  local heads, full, unit, step, starts = holds.heads, limit.full, limit.unit, limit.step, limit.starts
  local aligned, gain, phase, most_held = limit.aligned, holds.gain, holds.phase, limit.full + limit.max_debt
  local steps_at -- the number of the step at `at`, if the deficits are right for this level
  while heads[b] do
    local last = heads[b + ITS_END]
    if last >= to then
      return level, at, held, b
    end
    if not steps_at and fits(limit, holds, at) and not (cut and cut.tokens > 0) then
      steps_at = step_number(limit, phase, at)
    end
    local next_level, next_at, next_steps, next_held = nil, nil, nil, held - heads[b + ITS_TOKENS]
    if steps_at and held * unit <= most_held and heads[b + ITS_DEFICIT] < FOREVER then
      if starts then
        next_steps = period(limit, last)
      else
        next_steps = (last - phase) / step
        next_steps = next_steps - next_steps % 1
      end
      next_level = level + (next_steps - steps_at) * gain
      if returning(heads[b + ITS_TICKET]) then
        next_level = next_level + heads[b + ITS_TOKENS] * unit
      end
      next_at = aligned and last or at + (next_steps - steps_at) * step
      local most = full - next_held * unit - heads[b + ITS_DEFICIT]
      if next_level > most then
        next_level = most
      end
    else -- the room ends at the deepest debt, the deficit is of other or unknown steps, or something is cut
      next_level, next_at = refill_through(limit, list_of(holds, b), 1, level, at, FOREVER, held, cut)
    end
    if next_level >= need then
      return level, at, held, b
    end
    level, at, held, steps_at, b = next_level, next_at, next_held, next_steps, b + HEAD
  end
  return level, at, held, b
end

-- A page's deficit with another hold at its end. `gained` is what the limit
-- gains between the last two ends, and `all` the page's tokens with the new
-- hold.
local function deficit_with(holds, deficit, all, tokens, gained)
  if all * holds.unit >= FOREVER then -- no bucket of these units has so many tokens: refill_through_pages then uses no deficit
    return FOREVER
  end
  local own = tokens * holds.unit
  return math.max(deficit + own - gained, own)
end

-- Computes the head of the page at b, whose list has changed.
local function recount(limit, b)
  local holds = limit.holds
  local heads = holds.heads
  local id = heads[b]
  local list = holds.lists[id]
  local deficit, all, before, due = 0, 0, 0, 0
  local unit, gain, phase, step, starts = holds.unit, holds.gain, holds.phase, limit.step, limit.starts
  local kind, mixed = returning(list[2]), false
  for i = 1, #list, 3 do -- as deficit_with
    local at, tokens, steps = list[i], list[i + 2], nil
    if starts then
      steps = period(limit, at)
    else
      steps = (at - phase) / step
      steps = steps - steps % 1
    end
    local own = kind and 0 or tokens * unit
    mixed = mixed or returning(list[i + 1]) ~= kind
    deficit = deficit + own - (steps - before) * gain
    if deficit < own then
      deficit = own
    end
    all, before = all + tokens, steps
    if list[i + 1] < FIRST_LEASE then
      due = at
    end
  end
  heads[b + ITS_COUNT], heads[b + ITS_TOKENS], heads[b + ITS_DUE] = #list / 3, all, due
  heads[b + ITS_END], heads[b + ITS_TICKET] = list[#list - 2], list[#list - 1]
  heads[b + ITS_DEFICIT] = all * unit < FOREVER and not mixed and deficit or FOREVER
  holds.bytes[id], holds.stale[id], holds.changed[b], holds.passed = nil, true, true, nil
  if b == 1 then
    holds.first = list[1]
  end
end

-- Removes the page at b.
local function drop(holds, b)
  local id = holds.heads[b]
  holds.repack = true
  for _ = 1, HEAD do
    table.remove(holds.heads, b)
  end
  holds.lists[id], holds.bytes[id], holds.stale[id], holds.passed = nil, nil, nil, nil
  if b == 1 then
    holds.first = nil
  end
  if id > 0 then
    holds.removed[#holds.removed + 1] = pack(FIELD, holds.tag, id)
  end
end

-- Makes a page of a list of holds, with an id that is not in use, and inserts
-- its head at b.
local function insert(limit, b, list)
  local holds, id, used = limit.holds, 1, {}
  holds.repack = true
  local heads = holds.heads
  for other = 1, #heads, HEAD do
    used[heads[other]] = true
  end
  while used[id] do
    id = id + 1
  end
  for i = 1, HEAD do
    table.insert(heads, b, i == HEAD and id or 0)
  end
  holds.lists[id] = list
  recount(limit, b)
end

-- Makes one page of that at b and the next, if both exist and their holds fit
-- into one.
local function join(limit, b)
  local holds = limit.holds
  local heads = holds.heads
  if b < 1 or not heads[b + HEAD] or heads[b + ITS_COUNT] + heads[b + HEAD + ITS_COUNT] > MAX_PAGE then
    return
  end
  local list = list_of(holds, b)
  for _, number in ipairs(list_of(holds, b + HEAD)) do
    list[#list + 1] = number
  end
  drop(holds, b + HEAD)
  recount(limit, b)
end

-- Divides all holds into new pages, with the stepping of the limit's level.
local function rebuild(limit)
  local holds, all = limit.holds, {}
  for b = 1, #holds.heads, HEAD do
    for _, number in ipairs(list_of(holds, b)) do
      all[#all + 1] = number
    end
  end
  while holds.heads[1] do
    drop(holds, 1)
  end
  set_stepping(limit, holds)
  for i = 1, #all, 3 * MAX_PAGE do
    insert(limit, #holds.heads + 1, { values(all, i, math.min(#all, i + 3 * MAX_PAGE - 1)) })
  end
end

-- The place of the page in which a hold is or belongs: the first one that does
-- not end before it, or behind all pages if all do
local function page_with(heads, at, ticket)
  local low, high = 0, #heads / HEAD
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    local b = HEAD * middle + 1
    if heads[b + ITS_END] < at or heads[b + ITS_END] == at and heads[b + ITS_TICKET] < ticket then
      low = middle + 1
    else
      high = middle
    end
  end
  return HEAD * low + 1
end
