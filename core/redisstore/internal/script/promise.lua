-- What a decision does with holds: add them, and find when a reservation is due
-- (in Go: decide.go and holds.go).

-- Takes so many tokens, or all, from the reservations that were due when they
-- were made. A refund calls it: the tokens that it puts back may be those of
-- such a reservation, and must not come back again when that is cancelled.
function lib.use_now(holds, tokens)
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

-- Adds a hold of so many tokens to a limit.
function lib.hold_one(s, limit, at, ticket, tokens)
  limit.holds = limit.holds or new(s, limit)
  add(limit, at, ticket, tokens)
end

-- Adds a hold of so many tokens to every limit that tokens are taken from.
-- Without `tokens` it is of the limit's n.
function lib.hold(s, limits, at, ticket, tokens)
  for _, limit in ipairs(limits) do
    if limit.n > 0 then
      lib.hold_one(s, limit, at, ticket, tokens or limit.n)
    end
  end
end

-- When a reservation is due: every limit has n tokens then, and earlier
-- reservations are not due later. Returns also whether it may be made: no debt
-- gets too deep, and no limit has too many holds.
function lib.promise(limits, wait_for)
  local due, granted = now, true
  for _, limit in ipairs(limits) do
    local need, holds = limit.n * limit.unit, limit.holds
    due = math.max(due, math.min(FOREVER, now + wait_for(limit, need, true)))
    granted = granted and limit.level - need >= -limit.max_debt
    if holds then
      local heads = holds.heads
      local b = #heads - HEAD + 1
      while b > 0 and heads[b + ITS_DUE] == 0 do
        b = b - HEAD
      end
      due = math.max(due, b > 0 and heads[b + ITS_DUE] or 0)
      granted = granted and lib.count(holds) < MAX_HOLDS
    end
  end
  return due, granted
end
