-- A block is up to 64 holds that end one after another. Of most blocks a decision needs only their numbers: see pass.

-- What a step brings to a bucket that is not in debt
local function gain_of(limit)
  return limit.gain < limit.full and limit.gain or limit.full
end

-- How long after a multiple of a step those of a level begin
local function phase_of(limit, at)
  return limit.aligned and 0 or at % limit.step
end

-- Counts the steps until an instant.
local function tick(limit, phase, at)
  if limit.starts then
    return period(limit, at)
  end
  local steps = (at - phase) / limit.step
  return steps - steps % 1
end

-- Whether the cuts of blocks are those of a level at an instant
local function fits(limit, holds, at)
  return holds.steps == limit.hash and holds.unit == limit.unit and holds.gain == gain_of(limit) and holds.phase == phase_of(limit, at)
end

-- Sets what cuts depend on to that of the limit's level.
local function form(limit, holds)
  holds.steps, holds.unit, holds.gain, holds.phase = limit.hash, limit.unit, gain_of(limit), phase_of(limit, limit.at)
end

-- Refills a level to `to` in a bucket of which `out` tokens are held, past the ends of holds from the i-th number of a list on
-- that are before `to`. Returns what is held then, too.
local function refill_through(limit, list, i, level, at, to, out)
  while list[i] and list[i] < to do
    level, at = refill(limit, level, at, list[i], room(limit, out), out)
    out, i = out - list[i + 2], i + 3
  end
  return level, at, out
end

-- Refills a level through the blocks from b on that end before `to`, as long as it stays below `need` at their ends. `out`
-- tokens are held, theirs being among them. Returns the level, its instant, what is held then, and the first block that is
-- left.
--
-- At the end of a hold the level is at most its room while that is held, and from there on it gains as if there were no more
-- holds. So at the end of a block's last hold it is the least of what it would gain, and of what it would from the end of
-- each. Of these all but the first depend on the block alone: room - cut is the least of them.
local function pass(limit, holds, b, level, at, out, to, need)
  local heads, full, unit, step, starts = holds.heads, limit.full, limit.unit, limit.step, limit.starts
  local aligned, gain, phase, most_out = limit.aligned, holds.gain, holds.phase, limit.full + limit.deepest
  local ticks -- until `at`, if the cuts are those of this level
  while heads[b] do
    local last = heads[b + ITS_END]
    if last >= to then
      return level, at, out, b
    end
    if not ticks and fits(limit, holds, at) then
      ticks = tick(limit, phase, at)
    end
    local next_level, next_at, next_ticks, next_out = nil, nil, nil, out - heads[b + ITS_TOKENS]
    if ticks and out * unit <= most_out then
      if starts then
        next_ticks = period(limit, last)
      else
        next_ticks = (last - phase) / step
        next_ticks = next_ticks - next_ticks % 1
      end
      next_level = level + (next_ticks - ticks) * gain
      next_at = aligned and last or at + (next_ticks - ticks) * step
      local most = full - next_out * unit - heads[b + ITS_CUT]
      if next_level > most then
        next_level = most
      end
    else -- what room is then, or in other steps, no cut can tell
      next_level, next_at = refill_through(limit, list_of(holds, b), 1, level, at, FOREVER, out)
    end
    if next_level >= need then
      return level, at, out, b
    end
    level, at, out, ticks, b = next_level, next_at, next_out, next_ticks, b + HEAD
  end
  return level, at, out, b
end

-- What a block's cut becomes with another hold behind the others, for which the limit has gained so many units. `all` is the
-- block's tokens then.
local function cut_with(holds, cut, all, tokens, gained)
  if all * holds.unit >= FOREVER then -- no bucket of these units holds as much: pass does not use it
    return FOREVER
  end
  local own = tokens * holds.unit
  return math.max(cut + own - gained, own)
end

-- Computes the numbers of the block at b, whose list has changed.
local function recount(limit, b)
  local holds = limit.holds
  local heads = holds.heads
  local id = heads[b]
  local list = holds.lists[id]
  local cut, all, before, due = 0, 0, 0, 0
  local unit, gain, phase, step, starts = holds.unit, holds.gain, holds.phase, limit.step, limit.starts
  for i = 1, #list, 3 do -- as cut_with
    local at, tokens, steps = list[i], list[i + 2], nil
    if starts then
      steps = period(limit, at)
    else
      steps = (at - phase) / step
      steps = steps - steps % 1
    end
    local own = tokens * unit
    cut = cut + own - (steps - before) * gain
    if cut < own then
      cut = own
    end
    all, before = all + tokens, steps
    if list[i + 1] < FIRST_LEASE then
      due = at
    end
  end
  heads[b + ITS_COUNT], heads[b + ITS_TOKENS], heads[b + ITS_DUE] = #list / 3, all, due
  heads[b + ITS_END], heads[b + ITS_TICKET] = list[#list - 2], list[#list - 1]
  heads[b + ITS_CUT] = all * unit < FOREVER and cut or FOREVER
  holds.bytes[id], holds.stale[id], holds.changed[b], holds.passed = nil, true, true, nil
  if b == 1 then
    holds.first = list[1]
  end
end

-- Removes the block at b.
local function drop(holds, b)
  local id = holds.heads[b]
  holds.others = true
  for _ = 1, HEAD do
    table.remove(holds.heads, b)
  end
  holds.lists[id], holds.bytes[id], holds.stale[id], holds.passed = nil, nil, nil, nil
  if b == 1 then
    holds.first = nil
  end
  if id > 0 then
    holds.gone[#holds.gone + 1] = pack(FIELD, holds.tag, id)
  end
end

-- Makes a block of a list of holds, at b.
local function insert(limit, b, list)
  local holds, id, used = limit.holds, 1, {}
  holds.others = true
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

-- Makes one block of that at b and the next, if there are these and they have as few holds as that.
local function join(limit, b)
  local holds = limit.holds
  local heads = holds.heads
  if b < 1 or not heads[b + HEAD] or heads[b + ITS_COUNT] + heads[b + HEAD + ITS_COUNT] > MAX_BLOCK then
    return
  end
  local list = list_of(holds, b)
  for _, number in ipairs(list_of(holds, b + HEAD)) do
    list[#list + 1] = number
  end
  drop(holds, b + HEAD)
  recount(limit, b)
end

-- Makes blocks of all holds, for the limit's level.
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
  form(limit, holds)
  for i = 1, #all, 3 * MAX_BLOCK do
    insert(limit, #holds.heads + 1, { values(all, i, math.min(#all, i + 3 * MAX_BLOCK - 1)) })
  end
end

-- The place of the first block that does not end before a hold would, or that behind all
local function block_with(heads, at, ticket)
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
