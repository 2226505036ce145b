-- Decides a request: refill, end holds, then the action (in Go: decide.go).

-- Returns the levels of limits as they are now, for a decision that stores
-- nothing, and whether waits do not follow from them, because another
-- definition wrote the state.
local function levels_text(limits)
  local answer, waits = {}, false
  for i = 1, #limits do
    local limit = limits[i]
    limit.fills = nil
    waits = waits or limit.writer
    answer[i] = pack(LEVEL, limit.level + ZERO_UNITS, limit.at, limit.at)
  end
  return table.concat(answer), waits
end

-- µs until a limit has n tokens; if these were allowed, until it has one more;
-- 0 if it can't have so many
local function retry_of(r, limit, allowed, stored)
  local need = allowed and 1 or limit.n
  if need > limit.capacity or limit.slots and need == 0 then
    return 0
  end
  local first = crowded(r, limit) and holds_lib().first_end(limit.holds) + 1 - now or 0 -- then one must end, even if there are tokens
  return math.max(first, wait_for(limit, need * limit.unit, stored))
end

-- The two waits of each limit, in µs: that of retry_of, and until it is full
local function waits_of(r, allowed, stored)
  local answer, limits = {}, r.limits
  for i = 1, #limits do
    local limit = limits[i]
    local most = not stored and limit.matters > now and limit.matters - now or FOREVER -- by then it is full and its state expires
    local retry, full = limit.retry or retry_of(r, limit, allowed, stored), limit.fills or wait_for(limit, limit.full, stored)
    answer[i] = pack(PAIR, math.min(most, retry), math.min(most, full))
  end
  return table.concat(answer)
end

-- Decides one key by its state. Returns the sign and the rest of an answer; or
-- '!', an error, and whether the error is the server's and not the key's. The
-- sign is '?' if the decision needs periods of a calendar that were not sent.
-- If dry, TAKE only finds out whether there are tokens.
local function decide(r, state, dry)
  missing, broken = false, false
  local limits, action = r.limits, r.action
  local s, err, refused = stored_of(r.key, state, limits)
  if not s then
    return '!', err, refused
  end
  local write, moves, changed, unasked = false, false, false, false -- unasked: if the server does not write, nothing is lost
  for i = 1, #limits do
    write, moves = refill_stored(limits[i]) or write, moves or limits[i].n > 0
    changed = changed or limits[i].writer
  end
  local extends = action == ACQUIRE and r.endings[1] and r.endings[1].ticket == r.ticket
  if s.held and r.endings[1] and not extends and finish_all(limits, r.endings) then
    write = true
  end
  local allowed, due, extra = true, now, 0
  if extends then
    local changed
    allowed, changed = extend(s, r)
    write = changed or write
  elseif action == REFUND then
    write = refund(s, limits) or write
  elseif action ~= END then
    allowed, due = grants(s, r)
    local takes = allowed and moves
    if takes and not dry then
      extra, write = charge(s, r, due), true
    elseif changed and not write and not takes and not r.dry then -- the rate counts from now on
      write, unasked = true, true
    end
  end
  local answer, waits
  local has_waits = s.held and action ~= REFUND and action ~= END and not extends -- the callers of these need no waits
  for i = 1, has_waits and #limits or 0 do
    limits[i].retry = retry_of(r, limits[i], allowed, write) -- now: wait_around finds the longer wait until it is full from there on
  end
  if write then
    answer, err = keep(s, limits, has_waits)
    if err and unasked then
      write, err = false, nil
      for i = 1, #limits do
        limits[i].retry = nil
      end
    end
  end
  if not write then
    answer, waits = levels_text(limits)
  end
  if missing then
    return '?', ''
  elseif broken then
    return '!', 'is not a rate limit state'
  elseif err then
    return '!', err, true
  end
  if action >= RESERVE then
    answer = answer .. pack(NUMBER, (action == RESERVE or action == AWAIT) and due or extra)
  end
  if not has_waits and not waits then
    return allowed and (s.new and action == TAKE and not moves and 'n' or '+') or '-', answer
  end
  answer = answer .. waits_of(r, allowed, write)
  if missing then
    return '?', ''
  end
  return allowed and 'a' or 'd', answer
end
