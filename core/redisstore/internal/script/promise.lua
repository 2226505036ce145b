-- What a decision does with holds

-- Uses up to `tokens` of the reservations that were due at once. A refund in the same microsecond comes after they
-- were used, so these tokens can't come back a second time when the reservation is cancelled.
function made.use_now(holds, tokens)
  local list, front = holds.front, {}
  for i = 1, #list, 3 do
    local at, ticket, own = list[i], list[i + 1], list[i + 2]
    if not holds_at(now, at, ticket) then
      local used = math.min(tokens, own)
      tokens, own = tokens - used, own - used
    end
    if own > 0 then
      front[#front + 1], front[#front + 2], front[#front + 3] = at, ticket, own
    end
  end
  holds.front = front
end

-- Ends holds in every limit that has them, and puts back with `give` as many of their tokens as `endings` say. Returns
-- whether any limit had one.
function made.finish(limits, endings, give)
  local ended = false
  for _, limit in ipairs(limits) do
    for _, ending in ipairs(limit.holds and endings or {}) do
      local tokens = remove(limit, ending.ticket, ending.at)
      if tokens then
        give(limit, math.min(tokens, ending.back))
        ended = true
      end
    end
  end
  return ended
end

-- Holds tokens of every limit that n counts for: as many, or n.
function made.hold(s, limits, at, ticket, tokens)
  for _, limit in ipairs(limits) do
    if limit.n > 0 then
      limit.holds = limit.holds or new(s, limit)
      add(limit, at, ticket, tokens or limit.n)
    end
  end
end

-- When the n tokens of every limit are there, and not before those that were reserved earlier; and whether they can be
-- promised
function made.promise(limits)
  local due, granted = now, true
  for _, limit in ipairs(limits) do
    local need, holds = limit.n * limit.unit, limit.holds
    due = math.max(due, math.min(FOREVER, now + made.wait_around(limit, need)))
    granted = granted and limit.level - need >= -limit.deepest
    if holds then
      local heads = holds.heads
      local b = #heads - HEAD + 1
      while b > 0 and heads[b + ITS_DUE] == 0 do
        b = b - HEAD
      end
      due = math.max(due, b > 0 and heads[b + ITS_DUE] or 0)
      granted = granted and made.count(holds) < MAX_HOLDS
    end
  end
  return due, granted
end
