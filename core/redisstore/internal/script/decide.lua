-- Decides a request: refill, end holds, then the action (in Go: decide.go).

-- Returns the records of limits as they are now, for a decision that stores nothing. waits is true if the waits do not follow
-- from them: another definition wrote the state, and its bucket is full earlier or has other steps.
local function levels_text(limits)
  local answer, waits = {}, false
  for i = 1, #limits do
    local limit = limits[i]
    local full = full_at(limit)
    local first = earliest(limit)
    waits = waits or first > now and first < full or limit.bounds
    answer[i] = pack(RECORD, limit.tag, limit.steps_hash, limit.level / limit.unit, limit.at, limit.at, limit.fill_capacity, limit.pace)
  end
  return table.concat(answer), waits
end

-- µs until a limit has n tokens; if these were allowed, until it has one more; 0 if it can't have so many
local function retry_of(r, limit, allowed)
  local need = allowed and 1 or limit.n
  if need > limit.capacity or limit.slots and need == 0 then
    return 0
  end
  local first = crowded(r, limit) and holds_lib().first_end(limit.holds) + 1 - now or 0 -- then one must end, even if there are tokens
  return math.max(first, wait_for(limit, need * limit.unit))
end

-- Shortens the waits of a limit whose level rises before, because one of its records no longer matters. older.go has an example.
local function shorten(r, limit, allowed, retry, full)
  if not limit.older or limit.holds or limit.starts then
    return retry, full
  end
  local moment = now
  for _, at in ipairs({ limit.last.keep, until_full(limit.older) }) do
    if at > moment and at < limit.matters then
      local later = {}
      for name, value in pairs(limit) do
        later[name] = value
      end
      later.bounds, now = nil, at
      refill_stored(later)
      local bounds, longest, fills = later.bounds or {}, 0, 0
      bounds[#bounds + 1] = { later.level, later.at }
      for _, bound in ipairs(bounds) do
        later.level, later.at = bound[1], bound[2]
        longest, fills = math.max(longest, retry_of(r, later, allowed)), math.max(fills, wait_for(later, later.full))
      end
      now = moment
      retry, full = math.min(retry, at - now + longest), math.min(full, at - now + fills)
    end
  end
  return retry, full
end

-- The two waits of each limit, in µs: that of retry_of, and until it is full
local function waits_of(r, allowed, write)
  local answer, limits = {}, r.limits
  for i = 1, #limits do
    local limit = limits[i]
    local level, at, most, bounds = limit.level, limit.at, FOREVER, {}
    if not write then
      bounds = limit.bounds or bounds
      if limit.matters > now then
        most = limit.matters - now -- by then the bucket is full and its state expires
      end
    end
    local retry, full = limit.retry or retry_of(r, limit, allowed), limit.fills
    for _, bound in ipairs(bounds) do
      limit.level, limit.at = bound[1], bound[2]
      retry, full = math.max(retry, retry_of(r, limit, allowed)), math.max(full, wait_for(limit, limit.full))
    end
    limit.level, limit.at = level, at
    if not write then
      retry, full = shorten(r, limit, allowed, retry, full)
    end
    answer[i] = pack(PAIR, math.min(most, retry), math.min(most, full))
  end
  return table.concat(answer)
end

-- Decides one key by its state. Returns the sign and the rest of an answer; or '!', an error, and whether the error is the
-- server's and not the key's. The sign is '?' if the decision needs periods of a calendar that were not sent. If dry, TAKE only
-- finds out whether there are tokens.
local function decide(r, state, dry)
  missing, broken = false, false
  local limits, action = r.limits, r.action
  local s, err, refused = stored_of(r.key, state, limits)
  if not s then
    return '!', err, refused
  end
  local write, moves = false, false
  for i = 1, #limits do
    write, moves = refill_stored(limits[i]) or write, moves or limits[i].n > 0
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
    if allowed and moves and not dry then
      extra, write = charge(s, r, due), true
    end
  end
  local answer, waits
  local has_waits = s.held and action ~= REFUND and action ~= END and not extends -- the callers of these need no waits
  for i = 1, has_waits and #limits or 0 do
    limits[i].retry = retry_of(r, limits[i], allowed) -- now: wait_around finds the longer wait until it is full from there on
  end
  if write then
    answer, err = keep(s, limits)
  else
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
  if missing and not write then
    return '?', ''
  end
  return allowed and 'a' or 'd', answer
end
