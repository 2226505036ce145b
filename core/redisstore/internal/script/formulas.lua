-- The arithmetic of one limit, for both scripts. A token is `unit` units, and
-- the bucket gains `gain` units every `step` µs. All numbers are whole and
-- below 2^53, so doubles are exact.
--
--   used  units taken and not refilled yet: the bucket has capacity * unit -
--         used of them left. More than a full bucket is a debt.
--   at    the last step that has counted, in µs since 1970
--   cut   units used, but forgiven because the capacity has become smaller
--
-- Functions get `now`, and write 2 ^ 51, redis.call and the like in full: each
-- local of the script that a function uses makes every call of the script slower.
local MOST, FOREVER = 2 ^ 51, 2 ^ 51 -- the most units used; the longest wait, in µs
local ALIGNED, CALENDAR = 1, 2 -- modes: steps at multiples of step, at starts of periods; of others from `at` on
-- The RECORD of a limit: its tag, unit and capacity, which define it; the tokens
-- that are held; and used, at and cut, the AMOUNTS. In front of all these records
-- stands the HEADER: when the key expires, and an instant before which no hold
-- ends; 0 if only requests wrote it that know no holds, and 1 if one of these has
-- made the state live longer than the set of the holds.
local RECORD, RECORD_SIZE, MOST_RECORDS = '>I4I7I7I7I7I7I7', 46, 256
local HEADER, HEADER_SIZE = '>I7I7', 14
local DEFINITION_SIZE, AMOUNTS, NOT_HELD = 18, '>I7I7I7', '\0\0\0\0\0\0\0'
local NO_BUCKET = 'the key holds no bucket'
local values = unpack -- of a list; below, unpack is struct's
local pack, unpack, sub = struct.pack, struct.unpack, string.sub
local call, pcall = redis.call, redis.pcall

-- convert returns used and cut of a limit whose unit or capacity has changed.
-- What was used stays used. A smaller capacity makes no debt of it: what it
-- can't take is cut, and is used again when the capacity grows.
local function convert(used, cut, old_unit, old_capacity, unit, capacity)
  if old_unit ~= unit then
    used = math.min(2 ^ 51, math.ceil(used / old_unit * unit))
    cut = math.min(2 ^ 51, math.ceil(cut / old_unit * unit))
  end
  local old_full, full = old_capacity * unit, capacity * unit
  local moved
  if full > old_full then
    moved = -math.min(cut, full - old_full, 2 ^ 51 - used)
  else
    local debt = math.max(0, used - old_full)
    moved = math.max(0, used - debt - full)
  end
  return used - moved, cut + moved
end

-- refill counts the steps in (at, clock]. What they bring beyond a full bucket
-- pays the cut; with that paid too, the next step begins at clock.
local function refill(used, cut, at, clock, gain, step)
  if at < clock then
    local steps = (clock - at - (clock - at) % step) / step
    at, used = at + steps * step, used - steps * gain
    if used < 0 then
      cut = cut + used -- not in one assignment, which miniredis gets wrong
      used = 0
    end
  end
  if used + cut <= 0 then return 0, 0, at < clock and clock or at end
  return used, cut, at
end

-- wait returns in how many µs the bucket gains so many units.
local function wait(units, at, now, gain, step)
  if units <= 0 then return 0 end
  local steps = units / gain
  local time = at + (steps + -steps % 1) * step - now -- steps rounded up
  return time < 2 ^ 51 and time or 2 ^ 51
end

-- store writes a state of a header, of what the old one has up to `kept`, and of
-- records, which matter for `last` µs. The key lives an eighth and 3 s longer, so
-- that most writes can leave its TTL, by SETRANGE, which is faster. It never
-- expires earlier than before, for the records of other limits. store returns the
-- server's error or nil, and when the key expires.
local function store(key, state, expires, ends_from, kept, records, now, last)
  expires = math.max(expires, now + last + math.floor(last / 8) + 3000000)
  local ms = math.floor((expires - now) / 1000) + 1
  state = struct.pack('>I7I7', expires, ends_from) .. string.sub(state, 15, kept) .. records
  return redis.pcall('SET', key, state, 'PX', ms).err, expires
end
