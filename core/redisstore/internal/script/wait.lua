-- When a limit is full, and when it has so many units (in Go: fullAt in
-- keep.go, and wait in decide.go).

-- The instant of the first step at which a limit is full and nothing is cut any
-- more, or the last step that can be stored. With holds it may be later than
-- that. Sets limit.fills to the µs until the limit is full, if that is the
-- same.
local function full_at(limit)
  limit.fills = nil
  if limit.slots then
    return slots_lib.ends(limit.slots)
  end
  local full = stepped_at(limit, limit.at)
  if limit.cut > 0 then
    local stepped, last = full, limit.holds and holds_lib().last_end(limit.holds) or 0
    full = now + wait(limit, limit.level, limit.at, limit.full + math.min(LATEST, cut_units(limit, limit.cut)), 0)
    if last > 0 then -- while tokens are held, what refills may have no room
      full = holds_lib().outlast(limit, stepped, last) + (full - stepped) -- in this order: the sum of two instants may be above 2^53
    end
  elseif limit.level < limit.full then
    limit.fills = limit.holds and holds_lib().wait_around(limit, limit.full) or wait(limit, limit.level, limit.at, limit.full, 0)
    if limit.holds then -- tokens of a hold may come back between two steps
      full = holds_lib().outlast(limit, full, math.min(FOREVER, now + limit.fills))
    else
      full = now + limit.fills
    end
  else
    limit.fills = 0
  end
  if full >= FOREVER then
    full = FOREVER - 1
    if not limit.starts then
      full = full - (full - stepped_at(limit, limit.at)) % limit.step
    end
  end
  return math.max(0, full) -- a period may have begun before 1970
end

-- µs until a limit has `need` units. stored is whether the decision is:
-- otherwise the definition that wrote the record goes on.
local function wait_for(limit, need, stored)
  if limit.slots then
    return slots_lib.wait(limit.slots, limit.capacity, need)
  elseif limit.writer and not stored then
    return search(limit, limit.writer, limit.last.keep, need)
  elseif limit.holds and limit.cut > 0 and holds_lib().returning(limit.holds) then -- what is cut changes how their tokens come back
    return search(limit, limit, full_at(limit), need)
  elseif limit.holds then
    return holds_lib().wait_around(limit, need)
  end
  return wait(limit, limit.level, limit.at, need, 0)
end
