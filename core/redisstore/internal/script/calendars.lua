-- The calendars of limits that are aligned to one, as far as they were sent. What is not in them is asked for: `missing`
-- says so, and then nothing may be stored.
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

-- The same point of a period some periods before that of an instant, or its end if it is shorter
local function earlier(limit, at, periods)
  local number = period(limit, at)
  return math.min(start(limit, number - periods) + at - start(limit, number), start(limit, number - periods + 1) - 1)
end
