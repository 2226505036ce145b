-- Refills levels (in Go: level.go). A level is how many units a bucket has, at
-- the instant of the last step that has counted. `held` is how many tokens are
-- held: they still count against the Capacity.

-- How high the level may rise while `held` tokens are held; at least the
-- deepest debt
local function room(limit, held)
  return math.max(limit.full - held * limit.unit, -limit.max_debt)
end

-- What a step brings to a level: the gain, but at most what fills the bucket in
-- a debt of more tokens than are held. level.go has the reason and an example.
local function gain_to(limit, level, held)
  if limit.gain > limit.full and -level > held * limit.unit then
    return limit.full
  end
  return limit.gain
end

-- The last step that has counted for a level at an instant
local function stepped_at(limit, at)
  if limit.starts then
    return start(limit, period(limit, at))
  end
  return limit.aligned and at - at % limit.step or at
end

-- How many steps a level at an instant gains until another one, not before it;
-- and its instant after them
local function steps_since(limit, at, to)
  if limit.foreign then
    return 0, to
  elseif limit.starts then
    return period(limit, to) - period(limit, at), to
  end
  at = stepped_at(limit, at)
  local steps = (to - at) / limit.step
  steps = steps - steps % 1
  return steps, limit.aligned and to or at + steps * limit.step
end

-- Refills a level at `at` to an instant not before it. `most` is the room while
-- `held` tokens are held.
local function refill(limit, level, at, to, most, held)
  local gain = limit.gain
  if gain > limit.full then
    gain = gain_to(limit, level, held)
  end
  local steps
  steps, at = steps_since(limit, at, to)
  level = level + steps * gain
  if level >= most then
    return most, most == limit.full and to or at -- the steps of a full bucket begin with its next use
  end
  return level, at
end

-- µs after now until a level, refilled to now, has `need` units while `held`
-- tokens are held, if there is room for them
local function wait(limit, level, at, need, held)
  if level >= need then
    return 0
  end
  local gain = limit.gain
  if gain > limit.full then
    gain = gain_to(limit, level, held)
  end
  local steps = (need - level) / gain
  steps = steps + -steps % 1
  if steps > limit.max_steps then -- of a calendar, they may need more periods than a call should carry
    return FOREVER
  elseif limit.starts then
    return math.min(FOREVER, start(limit, period(limit, at) + steps) - now)
  end
  return steps * limit.step - (now - stepped_at(limit, at))
end

-- What a level becomes if n tokens are taken from it, whether or not they are
-- there; at least the deepest debt
local function debit(limit, n)
  return math.max(-limit.max_debt, limit.level - n * limit.unit)
end
