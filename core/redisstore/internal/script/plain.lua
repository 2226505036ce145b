-- Decides requests of a policy whose limits only refill, on many keys. The full
-- script decides all others, by the same formulas and on the same state.
--
-- It takes n tokens of every limit or of none, up to `times` times; or looks,
-- where n is 0, and is granted unless a limit is in debt; or charges them
-- without asking, where n below 0 gives back.
--
-- KEYS  of each key its state: a string, or nothing, which is full buckets
-- ARGV  the limits; 'take', 'look' or 'charge', or nothing to take; times of each
--       key, 7 bytes each, or nothing or '' for once; now, or nothing for this
--       server's clock
-- Returns of each key how many times it was granted and now, and of each limit
-- used, at and cut, 7 bytes each: what is left, and when there is more, follows
-- from these. It is one text. If a key can't be read or written, nothing is taken
-- of it, and the reply is a list: that text, with FAILED in place of the answer of
-- each such key, and then their errors, in the same order.
local LIMIT, LIMIT_SIZE = '>I4I7I7I7I7Bi7', 40
local ANSWER = '>I7I7I7I7I7'
local FAILED = '\255\255\255\255\255\255\255'

local keys, failures = KEYS, nil -- answers take the places of their keys
local limits, action, counts, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4] and tonumber(ARGV[4])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
if counts == '' then counts = nil end
local charge, look = action == 'charge', action == 'look'
local tag, unit, capacity, gain, step, mode, n = unpack(LIMIT, limits)
local several = #limits > LIMIT_SIZE and {} -- limits, by where they begin
for from = 1, several and #limits or 0, LIMIT_SIZE do
  several[from] = { 0, 0, 0, '', unpack(LIMIT, limits, from) } -- used, at, cut, held; the limit
end

local states = keys[2] and pcall('MGET', values(keys)) -- false for a key that has none, or can't be read
for i = 1, #keys do -- one block, no function: upvalues would make it a quarter slower
  local granted = counts and unpack('>I7', counts, 7 * i - 6) or 1
  local key, failed = keys[i], nil
  local state = states and states[i] or pcall('GET', key) or ''
  if state ~= '' and #state % RECORD_SIZE ~= HEADER_SIZE then -- an error, which is a table, has length 0
    state, granted, failed = '', 0, state.err or 'ERR ' .. NO_BUCKET
  end

  -- Of a key with one limit only its used, at and cut change: bytes 39 to 59.
  local only = not several and #state == HEADER_SIZE + RECORD_SIZE
  local expires, ends_from = 0, 0
  if state ~= '' then expires, ends_from = unpack(HEADER, state) end

  -- Decide: bring each limit to now, and ask how many times it has what it takes.
  local used, at, cut, held, found, set_back = 0, 0, 0, NOT_HELD, 0, false
  for from = 1, #limits, LIMIT_SIZE do
    local l = several and several[from]
    if l then
      tag, unit, capacity, gain, step, mode, n = l[5], l[6], l[7], l[8], l[9], l[10], l[11]
      used, at, cut, held = 0, 0, 0, NOT_HELD
    end
    for place = HEADER_SIZE + 1, #state, RECORD_SIZE do
      local its, old_unit, old_capacity, _, old_used, old_at, old_cut = unpack(RECORD, state, place)
      if its == tag then
        used, at, cut = old_used, old_at, old_cut
        if ends_from > 0 then held = sub(state, place + 18, place + 24) end
        if old_unit ~= unit or old_capacity ~= capacity then
          used, cut = convert(used, cut, old_unit, old_capacity, unit, capacity)
          only = false
        end
        found = found + 1
        break
      end
    end
    if at > now then -- stored even if denied, or the bucket would not refill until then
      at = now
      set_back = true
    end
    -- Another definition leaves an `at` between steps: no time counts twice.
    local clock = now
    if mode == ALIGNED then at, clock = at + -at % step, now - now % step end
    used, cut, at = refill(used, cut, at, clock, gain, step)

    local left, need = capacity * unit - used, n * unit
    if need * granted > left and not charge and (need > 0 or look) then
      granted = left < need and 0 or (left - left % need) / need
    end
    if l then l[1], l[2], l[3], l[4] = used, at, cut, held end
  end

  -- Take n of each limit, so many times, and answer.
  local taken, records, answer, last = false, '', '', 0
  for from = 1, #limits, LIMIT_SIZE do
    if several then
      local l = several[from]
      used, at, cut, held, unit, gain, step, n = l[1], l[2], l[3], l[4], l[6], l[8], l[9], l[11]
    end
    local need = n * unit
    if granted > 0 and (need > 0 or need < 0 and used + cut > 0) then
      taken, used = true, used + need * granted
      if used > MOST then used = MOST end
      if used < 0 then
        cut = math.max(0, cut + used)
        used = 0
      end
    end
    local stored = at < now and at or now
    if from == 1 then
      answer = pack(ANSWER, granted, now, used, stored, cut)
    else
      answer = answer .. pack(AMOUNTS, used, stored, cut)
    end
    if granted > 0 or set_back then -- it may be stored
      if not only or found == 0 then
        records = records .. sub(limits, from, from + DEFINITION_SIZE - 1) .. held .. sub(answer, -21)
      end
      local full_in = wait(used + cut, at, now, gain, step)
      if full_in > last then last = full_in end
    end
  end
  keys[i] = answer

  if taken or set_back then
    if #state > HEADER_SIZE + found * RECORD_SIZE then -- records of other limits stay, up to MOST_RECORDS
      local known = {}
      for from = 1, #limits, LIMIT_SIZE do known[sub(limits, from, from + 3)] = true end
      for from = HEADER_SIZE + 1, #state, RECORD_SIZE do
        if not known[sub(state, from, from + 3)] and #records < MOST_RECORDS * RECORD_SIZE then
          records = records .. sub(state, from, from + RECORD_SIZE - 1)
        end
      end
    end
    local kept = HEADER_SIZE
    if only and found == 1 then kept, records = 39, sub(answer, -21) end
    if now + last <= expires and #state == kept + #records then
      local from = kept == HEADER_SIZE and '14' or '39' -- texts, which Redis makes of numbers
      local size = pcall('SETRANGE', key, from, records)
      failed = size ~= #state and size.err or nil
    else
      failed = store(key, state, expires, math.min(ends_from, 1), kept, records, now, last)
    end
  end
  if failed then
    keys[i], failures = FAILED, failures or {}
    failures[#failures + 1] = failed
  end
end
local answer = keys[2] and table.concat(keys) or keys[1]
if failures then
  table.insert(failures, 1, answer)
  return failures
end
return answer
