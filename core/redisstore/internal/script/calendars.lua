-- The periods of calendars that were sent. If a decision needs others,
-- `missing` becomes true: then nothing may be stored, and the answer asks for
-- more periods.
local missing = false

-- The period that an instant is in, counted from the first that was sent
local function period(limit, at)
  local starts, low = limit.starts, 1
  local high = #starts
  if at < starts[1] or at >= starts[high] then
    missing = true
    return 1
  end
  while high - low > 1 do
    local middle = (low + high - (low + high) % 2) / 2
    if starts[middle] <= at then
      low = middle
    else
      high = middle
    end
  end
  return low
end

-- When a period begins
local function start(limit, number)
  local starts = limit.starts
  local at = starts[number]
  if not at then
    missing = missing or number < 1 or starts[#starts] < FOREVER
  end
  return at or FOREVER
end

-- The same point as that of an instant in an earlier period, or that period's
-- last microsecond if it is shorter
local function earlier(limit, at, periods)
  local number = period(limit, at)
  local since = at - start(limit, number) -- first: the sum of two instants may be above 2^53
  return math.min(start(limit, number - periods) + since, start(limit, number - periods + 1) - 1)
end
