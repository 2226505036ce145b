-- Decides requests of a policy whose limits only refill, on many keys. The full
-- script decides all others, by the same formulas and on the same state.
--
-- It takes n tokens of every limit or of none, up to `times` times; or looks,
-- where n is 0, and is granted unless a limit is in debt; or charges them
-- without asking, where n below 0 gives back.
--
-- KEYS  of each key its state: a string, or nothing, which is full buckets
-- ARGV  now; the limits; 'take', 'look' or 'charge', or nothing to take; times of
--       each key, 7 bytes each, or nothing for once
-- Returns of each key how many times it was granted and now, and of each limit
-- used, at and cut, 7 bytes each: what is left, and when there is more, follows
-- from these. It is one text. If a key can't be read or written, nothing is taken
-- of it, and the reply is a list: that text, with FAILED in place of the answer of
-- each such key, and then their errors, in the same order.
local LIMIT, LIMIT_SIZE = '>I4I7I7I7I7Bi7', 40
local FAILED = '\255\255\255\255\255\255\255'

local keys, failures = KEYS, nil -- answers take the places of their keys
local limits, action, counts = ARGV[2], ARGV[3], ARGV[4]
local charge, look = action == 'charge', action == 'look'
local one_limit, definition = #limits == LIMIT_SIZE, sub(limits, 1, DEFINITION_SIZE)
local tag, unit, capacity, gain, step, mode, n = unpack(LIMIT, limits)
local several = {} -- limits, if there is more than one: by where they begin
for from = 1, one_limit and 0 or #limits, LIMIT_SIZE do
  several[from] = { sub(limits, from, from + DEFINITION_SIZE - 1), unpack(LIMIT, limits, from) }
end

local once -- how the answer of a key begins that was granted once
for i = 1, #keys do -- one block, no function: upvalues would make it a quarter slower
  local granted = counts and unpack('>I7', counts, 7 * i - 6) or 1
  local key, failed = keys[i], nil
  local state = pcall('GET', key) or ''
  if state ~= '' and #state % RECORD_SIZE ~= HEADER_SIZE then -- an error, which is a table, has length 0
    state, granted, failed = '', 0, state.err or 'ERR ' .. NO_BUCKET
  end

  local expires, ends_from = 0, 0
  if state ~= '' then expires, ends_from = unpack(HEADER, state) end
  local only = one_limit and #state == HEADER_SIZE + RECORD_SIZE -- only its used, at and cut change: bytes 39 to 59

  -- Decide as if all was granted. If a limit has less, decide those in front of
  -- it again.
  local granted_before, back_before, taken, set_back, found, records, answer, last
  repeat
    granted_before, back_before, taken, found, records, answer, last = granted, set_back, false, 0, '', '', 0
    for from = 1, #limits, LIMIT_SIZE do
      if not one_limit then
        local l = several[from]
        definition, tag, unit, capacity, gain, step, mode, n = l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8]
      end
      local full, need = capacity * unit, n * unit

      -- The bucket as it is now.
      local used, at, cut, held, clock = 0, 0, 0, NOT_HELD, now
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
      if mode == ALIGNED then at, clock = at + -at % step, now - now % step end
      used, cut, at = refill(used, cut, at, clock, gain, step)

      -- Take n of it, so many times.
      local left = full - used
      if need * granted > left and not charge and (need > 0 or look) then
        granted = left < need and 0 or (left - left % need) / need
        if from == 1 then granted_before = granted end -- none is in front of it
      end
      if granted > 0 and (need > 0 or need < 0 and used + cut > 0) then
        taken, used = true, used + need * granted
        if used > MOST then used = MOST end
        if used < 0 then
          cut = math.max(0, cut + used)
          used = 0
        end
      end
      local amounts = pack(AMOUNTS, used, at < now and at or now, cut)
      answer = answer .. amounts
      if granted > 0 or set_back then -- it may be stored
        if not only or found == 0 then records = records .. definition .. held .. amounts end
        local full_in = wait(used + cut, at, gain, step)
        if full_in > last then last = full_in end
      end
    end
  until granted == granted_before and set_back == back_before

  local head = granted == 1 and once or pack('>I7I7', granted, now)
  if granted == 1 then once = head end
  keys[i] = head .. answer

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
    if only and found == 1 then kept, records = #state - #answer, answer end
    if now + last <= expires and #state == kept + #records then
      local from = kept == HEADER_SIZE and '14' or '39' -- texts, which Redis makes of numbers
      local size = pcall('SETRANGE', key, from, records)
      failed = size ~= #state and size.err or nil
    else
      failed = store(key, state, expires, kept, records, last)
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
