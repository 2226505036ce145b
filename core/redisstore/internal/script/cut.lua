-- What a lower Capacity has cut from a level (in Go: cut.go). Functions take it
-- as `cut`, a table with tokens, above 0, and base, or nil.

-- What is cut in units, to the nearest
local function cut_units(limit, tokens)
  return math.floor(tokens * limit.unit + 0.5)
end

-- Pays so many units of what is cut.
local function pay(limit, cut, units)
  cut.tokens = math.max(0, (cut_units(limit, cut.tokens) - units) / limit.unit)
end

-- Adds units that come back to a level, at most up to `most`. What was cut is
-- paid first, but not what came to the level since.
local function give(limit, level, units, most, cut)
  if not cut or cut.tokens <= 0 then
    return math.max(level, math.min(level + units, most))
  end
  local first = math.min(units, math.max(0, math.min(cut.base, most) - level))
  local paid = math.min(units - first, cut_units(limit, cut.tokens))
  pay(limit, cut, paid)
  local rest = level + units - paid
  if rest > most then -- there is no room for the rest
    pay(limit, cut, rest - most)
  end
  return math.max(level, math.min(rest, most))
end

-- What so many steps bring to a level: as gain_to says of each, in the debt and
-- after it. So it does not matter whether the level is looked at in between. A
-- level and it stay below 2^53.
local function gained_in(limit, level, held, steps)
  local in_debt = 0
  if gain_to(limit, level, held) < limit.gain then
    in_debt = (-level - held * limit.unit) / limit.full
    in_debt = math.min(steps, in_debt + -in_debt % 1)
  end
  return math.min(in_debt * limit.full + (steps - in_debt) * limit.gain, FOREVER - MAX_FULL)
end

-- refill of a level from which something is cut. What refills beyond the room
-- pays that. The steps of a full bucket go on until all is paid.
local function refill_cut(limit, level, at, to, most, held, cut)
  if not cut or cut.tokens <= 0 then
    return refill(limit, level, at, to, most, held)
  end
  local steps
  steps, at = steps_since(limit, at, to)
  local gained = gained_in(limit, level, held, steps)
  cut.base = math.min(cut.base + gained, limit.full)
  level = level + gained
  if level > most then
    pay(limit, cut, level - most)
    return most, most == limit.full and cut.tokens <= 0 and to or at
  end
  return level, at
end
