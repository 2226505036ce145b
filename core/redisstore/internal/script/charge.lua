-- Takes and returns tokens (in Go: decide.go).

-- Puts n tokens back, as far as there is room.
local function credit(limit, n)
  local cut = { tokens = limit.cut, base = limit.base }
  limit.level = give(limit, limit.level, n * limit.unit, room(limit, limit.holds and limit.holds.held or 0), cut)
  limit.cut = cut.tokens
end

-- Returns tokens, or charges those that were used already. Returns whether
-- anything must be stored.
local function refund(s, limits)
  local write = false
  for i = 1, #limits do
    local limit = limits[i]
    local n = limit.slots and 0 or limit.n -- slots come back when they are released
    if n > 0 and not s.new then -- a bucket that was never used is full: nothing can come back
      if limit.holds then
        holds_lib().use_now(limit.holds, n)
      end
      credit(limit, n)
      write = true
    elseif n < 0 then
      limit.level = debit(limit, -n)
      write = true
    end
  end
  return write
end

-- Whether a request, if it is allowed, holds the tokens that it takes from a
-- limit
local function holds_tokens(r, limit)
  return limit.hold > 0 and (r.action == ACQUIRE or r.action == AT_MOST) and limit.n > 0
end

-- Whether a limit has too many holds for one of the request
local function crowded(r, limit)
  return limit.holds and holds_tokens(r, limit) and holds_lib().count(limit.holds) >= MAX_HOLDS
end

-- Whether every limit has the request's tokens, now or when a reservation is
-- due; and when that is
local function grants(s, r)
  local there, waits = not s.held, r.action == RESERVE or r.action == AWAIT
  for i = 1, #r.limits do
    local limit = r.limits[i]
    if limit.n > limit.capacity then
      return false, now
    elseif limit.level < limit.n * limit.unit and not (limit.slots and limit.n == 0) or crowded(r, limit) then
      there = false
      if not waits then
        return false, now
      end
    end
  end
  if there or not waits then
    return true, now
  end
  local due, granted = holds_lib().promise(r.limits, wait_for)
  return granted and due - now <= r.more, due
end

-- How many tokens are taken beyond n: at most r.more, and at most what every
-- limit has left. A lease gets at most half of that, so that one process never
-- has the last tokens of a bucket.
local function extra_of(r)
  local extra = r.more
  for i = 1, #r.limits do
    local limit = r.limits[i]
    if limit.n > 0 then
      local left = math.floor(limit.level / limit.unit)
      if r.action == LEASE then
        left = math.floor(left / 2)
        if limit.holds and holds_lib().count(limit.holds) >= MAX_HOLDS then
          return 0
        end
      end
      extra = math.min(extra, left)
    end
  end
  return math.max(0, extra)
end

-- Holds so many tokens of a limit until its hold is over.
local function hold(s, limit, ticket, tokens)
  if limit.slots then
    slots_lib.add(limit.slots, now + limit.hold - 1, ticket, tokens)
  else
    holds_lib().hold_one(s, limit, now + limit.hold - 1, ticket, tokens)
  end
  s.held = true
end

-- Ends a hold of a limit. Returns its tokens; nil if there is none.
local function finish(limit, ending)
  if limit.slots then
    local tokens = slots_lib.finish(limit.slots, ending.ticket, ending.at + limit.hold - 1)
    limit.level = limit.capacity - limit.slots.used
    return tokens
  end
  return limit.holds and holds_lib().remove(limit, ending)
end

-- Ends holds in every limit that has them, and puts back as many of their
-- tokens as `endings` say. Returns whether there were any.
local function finish_all(limits, endings)
  local ended = false
  for _, limit in ipairs(limits) do
    for _, ending in ipairs(endings) do
      local tokens = finish(limit, ending)
      if tokens and not limit.slots then
        credit(limit, math.min(tokens, ending.back))
      end
      ended = ended or tokens
    end
  end
  return ended
end

-- Adds the holds of limits that hold what the request has taken, `extra` beyond
-- n.
local function acquire(s, r, extra)
  for _, limit in ipairs(r.limits) do
    if holds_tokens(r, limit) then
      hold(s, limit, r.ticket, limit.n + extra)
    end
  end
end

-- Has the limits that a request names hold their tokens from now on. A limit
-- whose hold has ended takes them again. Returns whether none lacked them, and
-- whether anything changed.
local function extend(s, r)
  local allowed, write = true, false
  for _, limit in ipairs(r.limits) do
    if holds_tokens(r, limit) then
      local held = finish(limit, r.endings[1])
      local again = held
      if not held and limit.level >= limit.n * limit.unit and not crowded(r, limit) then
        held = limit.n
      end
      if held then
        hold(s, limit, r.ticket, held)
        write = true
        if limit.slots or not again then
          limit.level = limit.level - held * limit.unit
        end
      else
        allowed = false
      end
    end
  end
  return allowed, write
end

-- Takes the request's tokens from every limit, and adds the hold of a
-- reservation or a lease. Returns how many it takes beyond n.
local function charge(s, r, due)
  local limits, action = r.limits, r.action
  for i = 1, #limits do
    local limit = limits[i]
    limit.level = limit.level - limit.n * limit.unit
  end
  if action == LEASE or action == AT_MOST then
    local extra = extra_of(r)
    for i = 1, extra > 0 and #limits or 0 do
      local limit = limits[i]
      if limit.n > 0 then
        limit.level = limit.level - extra * limit.unit
      end
    end
    if extra > 0 and action == LEASE then
      holds_lib().hold(s, limits, now + LEASE_LIFE, r.ticket, extra)
      s.held = true
    end
    acquire(s, r, extra)
    return extra
  elseif action == ACQUIRE then
    acquire(s, r, 0)
  elseif action == RESERVE or action == AWAIT and due > now then
    holds_lib().hold(s, limits, due, due == now and r.ticket + AT_ONCE or r.ticket)
    s.held = true
  end
  return 0
end
