-- A level is how many units a bucket has at an instant, which is the last step that has counted. `out` is how many tokens are
-- held: they keep their room in the bucket.

-- How high the level may rise while `out` tokens are held. It may be below 0, as a level may.
local function room(limit, out)
  return math.max(limit.full - out * limit.unit, -limit.deepest)
end

-- What a step brings to a level: no more than what fills the bucket, also when a debt is paid for which no tokens are held
-- any more
local function gain_to(limit, level, out)
  if limit.gain > limit.full and -level > out * limit.unit then
    return limit.full
  end
  return limit.gain
end

-- The step that an instant is in: one of a refilled level, or any if the limit is aligned
local function stepped_at(limit, at)
  if limit.starts then
    return start(limit, period(limit, at))
  end
  return limit.aligned and at - at % limit.step or at
end

-- How many steps end after an instant and until another one, not before it; and the last of them
local function steps_since(limit, at, to)
  if limit.starts then
    return period(limit, to) - period(limit, at), to
  end
  at = stepped_at(limit, at)
  local steps = (to - at) / limit.step
  steps = steps - steps % 1
  return steps, limit.aligned and to or at + steps * limit.step
end

-- Refills a level at `at` to an instant not before it. `most` is the room while `out` tokens are held.
local function refill(limit, level, at, to, most, out)
  local gain = limit.gain
  if gain > limit.full then
    gain = gain_to(limit, level, out)
  end
  local steps
  steps, at = steps_since(limit, at, to)
  level = level + steps * gain
  if level >= most then
    return most, most == limit.full and to or at -- the steps of a full bucket begin with its next use
  end
  return level, at
end

-- µs until a refilled level has `need` units, if there is room for them
local function wait(limit, level, at, need, out)
  if level >= need then
    return 0
  end
  local gain = limit.gain
  if gain > limit.full then
    gain = gain_to(limit, level, out)
  end
  local steps = (need - level) / gain
  steps = steps + -steps % 1
  if limit.starts then
    return math.min(FOREVER, start(limit, period(limit, at) + steps) - now)
  end
  if steps * limit.step > FOREVER then
    return FOREVER
  end
  return steps * limit.step - (now - stepped_at(limit, at))
end

-- What a level becomes if n tokens are taken from it, whether or not they are there
local function owing(limit, n)
  return math.max(-limit.deepest, limit.level - n * limit.unit)
end
