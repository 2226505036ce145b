-- Decides what the plain script can't: limits on calendars, tokens that are
-- held and come back, reservations, penalties, requests that must leave some
-- tokens, and several keys at once. Of several
-- requests all are granted, or none.
--
-- A limit may hold what is taken of it: slots, and estimates. Each limit of a
-- request then has one hold, which ends at `hold` µs from now, or when a later
-- request ends it. Until then its tokens count as held:
--
--   left = capacity * unit - used - held * unit
--
-- KEYS  of each request the state of its key, and its holds: a sorted set of
--       ticket, tag and tokens (HOLD) by the instants of their ends. Its last
--       member is '', which has no end: so the set, and its TTL, stay when all
--       holds have ended. It expires after the state
-- ARGV  the requests, each a REQUEST and its limits: action, whether
--       a limit holds tokens, times, an instant or delay, and the ticket of its
--       holds
--         TAKE     takes n of each limit up to `times` times, and leaves `floor`;
--                  n 0 of all: looks, and is granted unless a limit is in debt.
--                  If it is denied, a limit with a penalty that lacks tokens
--                  which it can have, and owes none yet, owes what it gains in
--                  `penalty` µs
--         CHARGE   takes n without asking; n below 0 gives back
--         RESERVE  takes n for when all limits have it, within `when` µs
--         CANCEL   gives back n of what was reserved for the instant `when`
--         EXTEND   takes n; of a limit whose hold is still there without asking
--       Then now, or nothing for this server's clock
-- Returns of each request how many times it was granted, now, the instant at
-- which its tokens are due, how many penalties it has made, and the answers of
-- its limits.
local REQUEST, LIMIT, HOLD = '>BBI7I7c8', '>I4I7I7I7I7Bi7I7I7I7I7', '>c8I4I7'
-- Of a limit: units left, in how many µs it has what was asked for (a token, if
-- granted), and in how many it is full. The first one's follows that of the request.
local FIRST_ANSWER, ANSWER = '>I7I7I7I4i7I7I7', '>i7I7I7'
local TAKE, CHARGE, RESERVE, CANCEL, EXTEND = 0, 1, 2, 3, 4
local NO_END, NO_END_TEXT = 2 ^ 53, '9007199254740992' -- later than all ends

local now = ARGV[#KEYS / 2 + 1]
now = now and tonumber(now)
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- A calendar's steps are its periods. The starts of those around now are known;
-- in front of them and behind them, periods are `step` long.

-- index returns the number of the step in which an instant lies.
local function index(l, instant)
  local starts = l.starts
  if not starts then return math.floor((instant - l.at) / l.step) end
  local k = #starts
  while k > 1 and starts[k] > instant do k = k - 1 end
  if k < #starts and instant >= starts[1] then return k end
  return k + math.floor((instant - starts[k]) / l.step)
end

-- start returns the instant at which a calendar's step begins.
local function start(l, k)
  local known = math.max(1, math.min(k, #l.starts))
  return l.starts[known] + (k - known) * l.step
end

-- wait_for returns in how many µs the limit gains so many units.
local function wait_for(l, units, now)
  if units <= 0 then return 0 end
  if not l.starts then return wait(units, l.at, now, l.gain, l.step) end
  local steps = math.ceil(units / l.gain)
  local k = index(l, l.at) + steps
  -- When such a debt is paid, its first periods lie in front of the known starts:
  -- they count as the longest ones, so fewer fit.
  if units > 2 * (l.full + l.gain) then
    k = k + 2 + math.floor(steps / 8)
  end
  return math.min(2 ^ 51, start(l, k) - now)
end

-- read_hold returns the tag and the tokens of a hold.
local function read_hold(member)
  assert(#member == 19, 'the key holds no bucket')
  local _, tag, tokens = struct.unpack('>c8I4I7', member)
  return tag, tokens
end

-- ready returns in how many µs a limit that has less than so many units has them,
-- if nobody ends a hold before its time.
local function ready(l, units, holds, now)
  if units > l.full then return 2 ^ 51 end
  local held, delay = l.held, wait_for(l, units - l.left, now) -- while all is held
  if held == 0 or l.hold == 0 then return delay end
  if units > l.full - held * l.unit then delay = 2 ^ 51 end
  local first = 0
  repeat
    local page = redis.call('ZRANGE', holds, first, first + 31, 'WITHSCORES')
    for k = 1, #page, 2 do
      local end_in = page[k + 1] - now
      if end_in >= delay then return delay end
      local tag, tokens = read_hold(page[k])
      if tag == l.tag then
        held = held - tokens
        local most = l.full - held * l.unit
        if units <= most then delay = math.min(delay, math.max(end_in, wait_for(l, units - most + l.used, now))) end
      end
    end
    first = first + 32
  until #page < 64
  return delay
end

-- Decide each request as if it was alone.
local requests, all = {}, true
for i = 1, #KEYS / 2 do
  local text, key, holds = ARGV[i], KEYS[2 * i - 1], KEYS[2 * i]
  local action, holding, times, when, ticket, from = unpack(REQUEST, text)
  local state, write = call('GET', key) or '', false
  if state ~= '' and #state % RECORD_SIZE ~= HEADER_SIZE then error(NO_BUCKET, 0) end
  local expires, noted, any_held = 0, 0, false -- noted: what the header has as ends_from
  if state ~= '' then expires, noted = unpack(HEADER, state) end
  local records, behind = {}, 0 -- how far the newest `at` is ahead: so far at least the clock was set back
  for place = HEADER_SIZE + 1, #state, RECORD_SIZE do
    local tag, unit, capacity, held, used, at, cut = unpack(RECORD, state, place)
    if at > now + behind then behind = at - now end
    if held > 0 then any_held = true end
    records[#records + 1] = {
      tag = tag, unit = unit, capacity = capacity, held = held, used = used, at = at, cut = cut,
    }
  end

  -- End the holds whose time is over. What a limit's record has as held is the sum
  -- of its members in the set, none of which ends before ends_from.
  local ends_from, over, last_end = noted, nil, nil
  if holding == 1 then
    if ends_from == 0 then call('DEL', holds) end -- of a state that is gone
    if behind > 0 then -- they keep their remaining time
      local members = call('ZRANGE', holds, '0', '-1', 'WITHSCORES')
      for k = 1, #members - 2, 2 do call('ZADD', holds, members[k + 1] - behind, members[k]) end
      for _, record in ipairs(records) do record.at = math.min(record.at, now) end
      ends_from, write = math.max(1, ends_from - behind), true
    end
    if any_held and action ~= CHARGE then -- a CHARGE adds none, so it needs no last end
      last_end = tonumber(call('ZRANGE', holds, '-2', '-2', 'WITHSCORES')[2])
      any_held = last_end ~= nil -- or Redis has lost them
    end
    if any_held and ends_from <= now then
      over = call('ZRANGEBYSCORE', holds, '-inf', now)
      for _, member in ipairs(over) do
        local tag, tokens = read_hold(member)
        for _, record in ipairs(records) do
          if record.tag == tag then record.held = math.max(0, record.held - tokens) end
        end
      end
      ends_from = tonumber(call('ZRANGE', holds, #over, #over, 'WITHSCORES')[2]) or NO_END
      any_held, write = ends_from < NO_END, write or #over > 0
    end
    if not any_held then
      last_end = 0
      if ends_from <= now then ends_from = NO_END end
      for _, record in ipairs(records) do record.held = 0 end
    end
  end

  local limits, granted, due, asked, in_debt = {}, times, 0, false, false
  local charge = action == CHARGE or action == CANCEL
  repeat
    local tag, unit, capacity, gain, step, mode, n, floor, penalty, hold, ends
    tag, unit, capacity, gain, step, mode, n, floor, penalty, hold, ends, from = unpack(LIMIT, text, from)
    local starts
    if mode == CALENDAR then
      local count, first = unpack('>I2', text, from)
      starts = { unpack('>' .. ('I7'):rep(count), text, first) }
      from = table.remove(starts)
    end

    -- The bucket as it is now.
    local used, at, cut, held = 0, 0, 0, 0
    for k = 1, #records do
      local record = records[k]
      if record.tag == tag then
        record.asked = true
        used, at, cut, held = record.used, record.at, record.cut, record.held
        if record.unit ~= unit or record.capacity ~= capacity then
          used, cut = convert(used, cut, record.unit, record.capacity, unit, capacity)
        end
        break
      end
    end
    if at > now then at, write = now, true end -- the clock was set back
    local full, need = capacity * unit, n * unit
    local l = {
      tag = tag, unit = unit, capacity = capacity, used = used, at = at, cut = cut, held = held, gain = gain,
      step = step, starts = starts, hold = hold, ends = ends, full = full, need = need, floor = floor * unit,
    }
    if gain == 0 then -- slots are only held
      l.used, l.cut, l.at = 0, 0, now
    elseif starts then
      local k = index(l, at)
      if k > 0 and start(l, k) < at then k = k + 1 end -- in front of them too few count already
      if at > 0 and at < starts[1] then write = true end -- later starts are known later, and would count fewer periods
      l.used, l.cut, k = refill(used, cut, k, index(l, now), gain, 1)
      l.at = start(l, k)
    else
      local clock = now
      if mode == ALIGNED then at, clock = at + -at % step, now - now % step end
      l.used, l.cut, l.at = refill(used, cut, at, clock, gain, step)
    end
    local left = full - l.used
    if hold > 0 then left = left - held * unit end
    if left < -MOST then left = -MOST end
    l.left = left
    limits[#limits + 1] = l

    local extends = false -- a hold that is still there
    if action == EXTEND and ends > 0 then
      local score = call('ZSCORE', holds, pack(HOLD, ticket, tag, ends))
      extends = score and tonumber(score) > now
    end

    -- Has the limit what the request needs?
    if penalty > 0 and action == TAKE and times > 0 and left >= 0 and left < need and need <= full then
      l.penalty = penalty
    end
    asked, in_debt = asked or need ~= 0, in_debt or left < 0
    if need > 0 and action == RESERVE then
      local delay = wait_for(l, need - left, now)
      local known = starts and math.max(now, starts[#starts]) or now + FOREVER
      if need > full or l.used + need > MOST or now + delay > known then delay = FOREVER end
      if delay > due then due = delay end
    elseif need > 0 and left - l.floor < need * granted and not charge and not extends then
      left = left - l.floor
      granted = left < need and 0 or math.floor(left / need)
    end
  until from > #text
  local look = action == TAKE and not asked
  if look and in_debt or action == RESERVE and due > when then granted = 0 end
  all = all and granted > 0
  requests[i] = {
    action = action, holding = holding == 1, when = when, ticket = ticket, state = state, records = records,
    expires = expires, noted = noted, ends_from = ends_from, last_end = last_end, over = over, limits = limits,
    granted = granted, due = due, look = look, write = write,
  }
end

-- Take what is granted, and answer.
local reply = ''
for i = 1, #requests do
  local r = requests[i]
  local key, holds = KEYS[2 * i - 1], KEYS[2 * i]
  local action, limits, write, ends_from = r.action, r.limits, r.write, r.ends_from
  local granted, charge = all and r.granted or 0, action == CHARGE

  if r.over then call('ZREMRANGEBYSCORE', holds, '-inf', now) end

  local is_new, last_end, penalties = false, action == TAKE and r.last_end or nil, 0
  for k = 1, #limits do
    local l = limits[k]
    local units, unit = l.need * granted, l.unit
    if granted == 0 and l.penalty then
      local steps = index(l, now + l.penalty) - index(l, now)
      l.used = math.min(MOST, math.max(l.used, l.full + steps * l.gain))
      penalties, write = penalties + 1, true
    end
    if l.ends > 0 and granted > 0 and call('ZREM', holds, pack(HOLD, r.ticket, l.tag, l.ends)) > 0 then
      l.held, write = math.max(0, l.held - l.ends), true
    end
    if action == CANCEL then -- what was reserved behind it stays
      local free = now + wait_for(l, -l.left, now)
      units = -math.max(0, units - l.gain * math.max(0, index(l, free) - index(l, r.when)))
    end
    if units > 0 and l.hold > 0 and not charge then
      local hold_end = now + l.hold
      l.held, write = l.held + units / unit, true
      local added = call('ZADD', holds, hold_end, pack(HOLD, r.ticket, l.tag, units / unit), NO_END_TEXT, '')
      is_new = is_new or added > 1
      if last_end and hold_end > last_end then last_end = hold_end end
      if hold_end < ends_from then ends_from = hold_end end
    elseif l.gain > 0 and (units > 0 or units < 0 and l.used + l.cut > 0) then
      l.used, write = math.min(MOST, l.used + units), true
      if l.used < 0 then l.used, l.cut = 0, math.max(0, l.cut + l.used) end
    end
    l.left = l.full - l.used
    if l.hold > 0 then l.left = l.left - l.held * unit end
    if l.left < -MOST then l.left = -MOST end
  end

  local last, records = 0, ''
  for k = 1, #limits do
    local l = limits[k]
    local full_in = wait_for(l, l.used + l.cut, now)
    if l.held > 0 and l.hold > 0 then
      last_end = last_end or call('ZRANGE', holds, '-2', '-2', 'WITHSCORES')[2] or now
      full_in = math.max(full_in, last_end - now)
    end
    if full_in > last then last = full_in end
    local units = granted > 0 and l.unit or l.need > 0 and l.need + l.floor or l.need
    local ready_in = l.left < units and (units > 0 or r.look) and ready(l, units, holds, now) or 0
    if k == 1 then
      reply = reply .. pack(FIRST_ANSWER, granted, now, now + r.due, penalties, l.left, ready_in, full_in)
    else
      reply = reply .. pack(ANSWER, l.left, ready_in, full_in)
    end
    if write then
      local at = l.at < now and l.at or now -- behind now, it would look as if the clock was set back
      records = records .. pack(RECORD, l.tag, l.unit, l.capacity, l.held, l.used, at, l.cut)
    end
  end

  if write then
    for k = 1, #r.records do -- those of other limits stay
      local o = r.records[k]
      if not o.asked and #records < MOST_RECORDS * RECORD_SIZE then
        records = records .. pack(RECORD, o.tag, o.unit, o.capacity, o.held, o.used, o.at, o.cut)
      end
    end
    local expires, refused = r.expires, nil
    if now + last <= expires and #r.state == HEADER_SIZE + #records then
      local from = '14'
      if ends_from ~= r.noted then from, records = '7', pack('>I7', ends_from) .. records end
      local size = pcall('SETRANGE', key, from, records)
      refused = size ~= #r.state and size.err or nil
    else
      if not r.holding then ends_from = math.min(ends_from, 1) end
      refused, expires = store(key, r.state, expires, ends_from, HEADER_SIZE, records, now, last)
    end
    if refused then return { err = refused } end
    -- The set has to expire after the state, and does if it was there then and the
    -- state has not been prolonged since.
    if r.holding and (is_new or expires > r.expires or r.noted <= now) then
      call('PEXPIRE', holds, math.floor((expires - now) / 1000) + 3000)
    end
  end
end
return reply
