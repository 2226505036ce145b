-- Decides what the plain script can't: limits on calendars, tokens that are
-- held and come back, reservations, and several keys at once. Of several
-- requests all are granted, or none.
--
-- A limit may hold what is taken of it: slots, and estimates. Each limit of a
-- request then has one hold, which ends at `hold` µs from now, or when a later
-- request ends it. Until then its tokens count as held:
--
--   left = capacity * unit - used - held * unit
--
-- KEYS  of each request the state of its key, and its holds: a sorted set of
--       ticket, tag and tokens (HOLD) by the instants of their ends
-- ARGV  now; then the requests, each a REQUEST and its limits: action, times,
--       an instant or delay, and the ticket of its holds
--         TAKE     takes n of each limit up to `times` times; n 0 of all: looks,
--                  and is granted unless a limit is in debt
--         CHARGE   takes n without asking; n below 0 gives back
--         RESERVE  takes n for when all limits have it, within `when` µs
--         CANCEL   gives back n of what was reserved for the instant `when`
--         EXTEND   takes n; of a limit whose hold is still there without asking
-- Returns now, and of each request how many times it was granted, the instant at
-- which its tokens are due, how many of the holds that it ends were there, and
-- the answers of its limits.
local REQUEST, LIMIT, HOLD, REPLY = '>BI7I7c8', '>I4I7I7I7I7Bi7I7I7', '>c8I4I7', '>I7I7I4'
-- Of a limit: units left, in how many µs it has what was asked for (a token, if
-- granted), and in how many it is full.
local ANSWER = '>i7I7I7'
local TAKE, CHARGE, RESERVE, CANCEL, EXTEND = 0, 1, 2, 3, 4
local HOLD_SIZE = 19
local PAGE = 32 -- how many holds are read at once

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
local function wait_for(l, units)
  if units <= 0 or not l.starts then return wait(units, l.at, l.gain, l.step) end
  local steps = math.ceil(units / l.gain)
  local k = index(l, l.at) + steps
  if units > 2 * (l.full + l.gain) then -- some will lie in front of the known starts then, and fewer count
    k = k + 2 + math.floor(steps / 8)
  end
  return math.min(FOREVER, start(l, k) - now)
end

-- is_there tells whether a hold has not ended.
local function is_there(r, member)
  local ends = call('ZSCORE', r.holds, member)
  return ends and tonumber(ends) > now
end

-- set_back has holds end earlier by as much as the clock was set back behind the
-- last write, as far as the records tell: they keep their remaining time.
local function set_back(r)
  local back = 0
  for _, record in pairs(r.records) do back = math.max(back, record.at - now) end
  if back == 0 then return end
  local all = call('ZRANGE', r.holds, '0', '-1', 'WITHSCORES')
  for i = 1, #all, 2 do call('ZADD', r.holds, all[i + 1] - back, all[i]) end
  for _, record in pairs(r.records) do record.at = math.min(record.at, now) end
  r.set_back, r.write = true, true
end

-- read returns a request, the records of its key as they are stored, without
-- the holds that have ended.
local function read(text, state, holds)
  local r = { key = state, holds = holds, limits = {}, records = {}, tags = {}, there = 0, look = true }
  local from, holding
  r.action, r.times, r.when, r.ticket, from = unpack(REQUEST, text)
  while from <= #text do
    local l = {}
    l.tag, l.unit, l.capacity, l.gain, l.step, l.mode, l.n, l.hold, l.ends, from = unpack(LIMIT, text, from)
    if l.mode == CALENDAR then
      local starts, first = unpack('>I2', text, from)
      l.starts = { unpack('>' .. ('I7'):rep(starts), text, first) }
      from = table.remove(l.starts)
    end
    l.full, l.need, holding = l.capacity * l.unit, l.n * l.unit, holding or l.hold > 0
    r.limits[#r.limits + 1] = l
    r.look = r.look and r.action == TAKE and l.n == 0
  end

  state = call('GET', state) or ''
  r.state = state
  assert(state == '' or #state % RECORD_SIZE == HEADER_SIZE, NO_BUCKET)
  for place = HEADER_SIZE + 1, #state, RECORD_SIZE do
    local tag, unit, capacity = unpack(DEFINITION, state, place)
    local used, at, cut, held = unpack(AMOUNTS, state, place + DEFINITION_SIZE)
    r.tags[#r.tags + 1] = tag
    r.records[tag] = { held = held, unit = unit, capacity = capacity, used = used, at = at, cut = cut }
  end

  if not holding then return r end
  set_back(r)
  local first_end = call('ZRANGE', holds, '0', '0', 'WITHSCORES')[2]
  if first_end and state == '' then -- Redis has lost one of the two keys
    call('DEL', holds)
    first_end, r.write = nil, true
  end
  if not first_end then
    for _, record in pairs(r.records) do record.held = 0 end
    return r
  end
  if tonumber(first_end) > now then return r end
  r.over = call('ZRANGEBYSCORE', holds, '-inf', now)
  for _, member in ipairs(r.over) do
    assert(#member == HOLD_SIZE, NO_BUCKET)
    local _, tag, tokens = unpack(HOLD, member)
    local record = r.records[tag]
    if record then record.held = math.max(0, record.held - tokens) end
  end
  r.write = true
  return r
end

-- count brings the limits of a request to now: by refill, and without the holds
-- that the request ends.
local function count(r)
  for _, l in ipairs(r.limits) do
    local record = r.records[l.tag] or { held = 0, unit = l.unit, capacity = l.capacity, used = 0, at = 0, cut = 0 }
    l.held = l.hold > 0 and record.held or 0
    l.used, l.cut = convert(record.used, record.cut, record.unit, record.capacity, l.unit, l.capacity)
    if l.gain == 0 then l.used, l.cut = 0, 0 end -- slots are only held

    local at = math.min(record.at, now) -- below it if the clock was set back
    if l.mode == CALENDAR then
      local k = index(l, at)
      if k > 0 and start(l, k) < at then k = k + 1 end -- in front of them too few count already
      if at > 0 and at < l.starts[1] then r.write = true end -- from later on, even fewer of the periods since would count
      l.used, l.cut, k = refill(l.used, l.cut, k, index(l, now), l.gain, 1)
      l.at = start(l, k)
    else
      local clock = now
      if l.mode == ALIGNED then at, clock = at + -at % l.step, now - now % l.step end
      l.used, l.cut, l.at = refill(l.used, l.cut, at, clock, l.gain, l.step)
    end
    if record.at > now then r.set_back, r.write = true, true end

    if l.ends > 0 then
      l.ended = pack(HOLD, r.ticket, l.tag, l.ends)
      if is_there(r, l.ended) then
        r.there = r.there + 1
      else
        l.ended, l.ends = nil, 0
      end
    end
    l.left = l.full - l.used - l.held * l.unit
  end
end

-- decide returns how many times a request is granted, and sets when it is due.
local function decide(r)
  local granted = r.times
  r.due = 0
  if r.action == CHARGE or r.action == CANCEL then return granted end
  for _, l in ipairs(r.limits) do
    if l.need > 0 and r.action == RESERVE then
      local delay = wait_for(l, l.need - l.left)
      local known = l.starts and math.max(now, l.starts[#l.starts]) or now + FOREVER
      if l.need > l.full or l.used + l.need > MOST or now + delay > known then delay = FOREVER end
      r.due = math.max(r.due, delay)
    elseif l.need > 0 and not (r.action == EXTEND and l.ended) then
      granted = math.max(0, math.min(granted, math.floor(l.left / l.need)))
    elseif r.look and l.left < 0 then
      granted = 0
    end
  end
  if r.action == RESERVE and r.due > r.when then return 0 end
  return granted
end

-- take takes what was granted, and ends holds.
local function take(r)
  for _, l in ipairs(r.limits) do
    if r.granted > 0 and l.ended then
      l.held, r.write = math.max(0, l.held - l.ends), true
      call('ZREM', r.holds, l.ended)
    end
    local units = l.need * r.granted
    if r.action == CANCEL then -- what was reserved behind it stays
      local free = now + wait_for(l, -l.left)
      units = -math.max(0, units - l.gain * math.max(0, index(l, free) - index(l, r.when)))
    end
    if units > 0 and l.hold > 0 and r.action ~= CHARGE then
      l.held, l.adds, r.write = l.held + units / l.unit, pack(HOLD, r.ticket, l.tag, units / l.unit), true
      call('ZADD', r.holds, now + l.hold, l.adds)
    elseif l.gain > 0 and (units > 0 or units < 0 and l.used + l.cut > 0) then
      l.used, r.write = math.min(MOST, l.used + units), true
      if l.used < 0 then l.used, l.cut = 0, math.max(0, l.cut + l.used) end
    end
    l.left = l.full - l.used - l.held * l.unit
  end
end

-- each_hold iterates over the holds of a request's key and their ends, the
-- earliest first.
local function each_hold(r)
  local page, i = nil, 0
  return function()
    local k = i % PAGE
    if k == 0 then page = call('ZRANGE', r.holds, i, i + PAGE - 1, 'WITHSCORES') end
    i = i + 1
    return page[2 * k + 1], tonumber(page[2 * k + 2])
  end
end

-- ready returns in how many µs a limit has what was denied, or, if the request
-- was granted, a token; if nobody ends a hold before its time.
local function ready(r, l)
  local units = r.granted > 0 and l.unit or l.need
  if units <= 0 and not r.look then return 0 end -- nothing was asked of it
  if l.left >= units then return 0 end
  if units > l.full then return FOREVER end
  local delay = wait_for(l, units - l.left) -- while all is held
  if l.held == 0 then return delay end
  local held = l.held
  if units > l.full - held * l.unit then delay = FOREVER end
  for member, ends in each_hold(r) do
    if ends - now >= delay then break end
    assert(#member == HOLD_SIZE, NO_BUCKET)
    local _, tag, tokens = unpack(HOLD, member)
    if tag == l.tag then
      held = held - tokens
      local most = l.full - held * l.unit
      if units <= most then delay = math.min(delay, math.max(ends - now, wait_for(l, units - most + l.used))) end
    end
  end
  return delay
end

-- answer returns what is said of a request's limits, and sets in how many µs
-- all that is stored of them is over.
local function answer(r)
  local text, last_end = pack(REPLY, r.granted, now + r.due, r.there), nil
  r.last = 0
  for _, l in ipairs(r.limits) do
    local full_in = wait_for(l, l.used + l.cut)
    if l.held > 0 then
      last_end = last_end or call('ZRANGE', r.holds, '-1', '-1', 'WITHSCORES')[2] or now
      full_in = math.max(full_in, last_end - now)
    end
    r.last = math.max(r.last, full_in)
    text = text .. pack(ANSWER, math.max(-MOST, l.left), ready(r, l), full_in)
  end
  return text
end

-- record returns the record of a limit as bytes.
local function record(tag, l)
  return pack(DEFINITION, tag, l.unit, l.capacity) .. pack(AMOUNTS, l.used, l.at, l.cut, l.held)
end

-- write stores the records, those of other limits behind the request's own. It
-- returns the error of a server that refuses that.
local function write(r)
  local records = ''
  for _, l in ipairs(r.limits) do
    l.at = math.min(l.at, now) -- behind now, it would look as if the clock was set back
    records = records .. record(l.tag, l)
    r.records[l.tag] = nil
  end
  for _, tag in ipairs(r.tags) do
    if r.records[tag] and #records < MOST_RECORDS * RECORD_SIZE then
      records = records .. record(tag, r.records[tag])
    end
  end
  local reply, expires = store(r.key, r.state, records, r.last, r.set_back)
  if type(reply) == 'table' and reply.err then return reply end
  for _, l in ipairs(r.limits) do
    -- Holds live longer than the state, which counts them.
    if l.adds then call('PEXPIRE', r.holds, ('%.0f'):format(math.floor((expires - now) / 1000) + 3000)) end
  end
end

-- refusal returns the error of a server that takes no writes, before any is
-- made: one whose memory is full lets holds go, but not the state that counts
-- them.
local function refusal(r)
  if r.state == '' then return nil end
  local reply = pcall('SETRANGE', r.key, '0', sub(r.state, 1, 1))
  return type(reply) == 'table' and reply or nil
end

local requests, all = {}, true
for i = 2, #ARGV do
  local r = read(ARGV[i], KEYS[2 * i - 3], KEYS[2 * i - 2])
  count(r)
  r.granted = decide(r)
  all = all and r.granted > 0
  requests[i - 1] = r
end
local reply = pack('>I7', now)
for _, r in ipairs(requests) do
  if not all then r.granted = 0 end
  local refused = (r.over or r.granted > 0 and r.there > 0) and refusal(r)
  if refused then return refused end
  if r.over then call('ZREMRANGEBYSCORE', r.holds, '-inf', now) end
  take(r)
  reply = reply .. answer(r)
  refused = r.write and write(r)
  if refused then return refused end
end
return reply
