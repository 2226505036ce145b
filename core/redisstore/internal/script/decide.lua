-- The records of limits as they are now, when nothing is stored; and whether waits do not follow from them, for another
-- definition wrote the state, and its bucket fills earlier or has other steps
local function show(limits)
  local answer, waits = {}, false
  for i = 1, #limits do
    local limit = limits[i]
    local full = full_at(limit)
    waits = waits or limit.matters > now and limit.matters < full or limit.also
    answer[i] = pack(RECORD, limit.tag, limit.hash, limit.level / limit.unit, limit.at, limit.at, limit.most, limit.pace)
  end
  return table.concat(answer), waits
end

-- µs until a limit has n tokens, or if these were allowed one more; 0 if it can't have so many
local function retry_of(limit, allowed)
  local need = allowed and 1 or limit.n
  return need <= limit.capacity and wait_for(limit, need * limit.unit) or 0
end

-- Those waits of each limit, and the ones until it is full, in µs
local function waits_of(limits, allowed, write)
  local answer = {}
  for i = 1, #limits do
    local limit = limits[i]
    local level, at, most, also = limit.level, limit.at, FOREVER, {}
    if not write then
      also = limit.also or also
      if limit.matters > now then
        most = limit.matters - now -- the bucket is full by then, and is forgotten
      end
    end
    local retry, full = limit.retry or retry_of(limit, allowed), limit.fills
    for _, bound in ipairs(also) do
      limit.level, limit.at = bound[1], bound[2]
      retry, full = math.max(retry, retry_of(limit, allowed)), math.max(full, wait_for(limit, limit.full))
    end
    limit.level, limit.at = level, at
    answer[i] = pack(PAIR, math.min(most, retry), math.min(most, full))
  end
  return table.concat(answer)
end

-- Decides one key by its state. Returns the sign and the rest of an answer; or '!', an error, and whether the server is
-- at fault, not the key. If dry, a request to take only finds out whether there are tokens. The sign is '?' if the
-- decision needs periods of a calendar that were not sent.
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
  if s.held and r.endings[1] and holding().finish(limits, r.endings, give) then
    write = true
  end
  local allowed, due, extra = true, now, 0
  if action == REFUND then
    write = refund(s, limits) or write
  elseif action ~= END then
    allowed, due = grants(s, r)
    if allowed and moves and not dry then
      extra, write = charge(s, r, due), true
    end
  end
  local answer, waits
  local told = s.held and action ~= REFUND and action ~= END -- nobody asks when there are tokens
  for i = 1, told and #limits or 0 do
    limits[i].retry = retry_of(limits[i], allowed) -- before the longer wait until it is full, which goes on from there
  end
  if write then
    answer, err = keep(s, limits)
  else
    answer, waits = show(limits)
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
  if not told and not waits then
    return allowed and '+' or '-', answer
  end
  answer = answer .. waits_of(limits, allowed, write)
  if missing and not write then
    return '?', ''
  end
  return allowed and 'a' or 'd', answer
end
