-- Parses the requests that do not take the fast path, and answers each.
-- fast_path.lua has read what comes before their limits.
--
-- A limit is a table with the fields of Rate in rate.go. For the key that is
-- decided it also has:
--   n                    what the request takes of it
--   hold                 for how long it holds that, in µs; 0: not at all
--   last, holds          its record and holds as stored; last is nil if it was not used yet (stored_of sets these)
--   slots                those in use, as slots.lua has them, if it is a limit of slots (stored_of)
--   level, at, matters   its level, the instant of that, and until when its record matters (refill_stored)
--   cut, base            what is cut from the level: see cut.lua (refill_stored)
--   writer               another definition that wrote the record, with its own level (refill_stored)
--   written              the instant of level, cut and base: now; of a writer perhaps that of the record (refill_stored)
--   retry, fills         µs until it has n tokens (decide), and until it is full (full_at)

-- Returns the limits of a request. They are parsed once and shared, because
-- most requests of a script call have the same limits.
local lists, calendar_at = {}, 1 -- limits by where they begin in ARGV[1]; where the next calendar begins in ARGV[3]
local function limits_of(r)
  local limits = lists[r.at_limits]
  if limits then
    return limits
  end
  limits = {}
  for j = 1, r.limits do
    local at = r.at_limits + (j - 1) * DEFINITION_SIZE
    local limit = limit_of(sub(requests, at, at + DEFINITION_SIZE - 1))
    limit.level, limit.at, limit.cut, limit.base = 0, 0, 0, 0
    if limit.foreign then -- its own calendar it knows
      limit.foreign = false
      limit.max_debt, limit.max_steps = unpack(PAIR, ARGV[3], calendar_at)
      local periods = unpack(NUMBER, ARGV[3], calendar_at + PAIR_SIZE)
      calendar_at = calendar_at + PAIR_SIZE + NUMBER_SIZE
      limit.starts = {}
      for k = 1, periods do
        limit.starts[k] = unpack(NUMBER, ARGV[3], calendar_at)
        calendar_at = calendar_at + NUMBER_SIZE
      end
    end
    limits[j] = limit
  end
  lists[r.at_limits] = limits
  return limits
end

-- Reads what follows the limits of a request, and takes the flags out of its
-- action.
local function read(r)
  local from = r.from
  local function has(flag)
    local is = r.action >= flag
    r.action = is and r.action - flag or r.action
    return is
  end
  local ending, each, joint, held = has(ENDS), has(EACH), has(JOINT), has(HELD)
  r.joint, r.dry = joint and r.times > 0, has(DRY)
  r.more, r.ticket, r.endings = 0, 0, {}
  if r.action >= RESERVE then
    r.more, r.ticket = unpack(PAIR, requests, from)
    from = from + PAIR_SIZE
  end
  if ending then
    for i = 1, r.action == END and r.times or 1 do
      local ends, at, back = unpack(ENDING, requests, from)
      r.endings[i] = { ticket = ends, at = at, back = back }
      from = from + ENDING_SIZE
    end
  end
  r.times = r.action == TAKE and math.max(1, r.times) or 1
  r.limits = limits_of(r)
  local n, hold_at = r.n, each and from + #r.limits * NUMBER_SIZE or from
  r.n, r.hold = {}, {}
  for j = 1, #r.limits do
    r.n[j] = each and unpack(NUMBER, requests, from + (j - 1) * NUMBER_SIZE) or n
    r.hold[j] = held and unpack(NUMBER, requests, hold_at + (j - 1) * NUMBER_SIZE) or 0
  end
end

-- Decides a request once by a key's state. Returns the answer, and the server's
-- error if there was one.
local function answer_to(r, state, dry)
  for j = 1, #r.limits do
    r.limits[j].n, r.limits[j].hold = r.n[j], r.hold[j]
  end
  local done, sign, answer, refused = protect(decide, r, state, dry)
  if not done then -- an error of Lua: not all of the state was checked, and its bytes were not what they seemed
    sign, answer = '!', 'is not a rate limit state: ' .. tostring(type(sign) == 'table' and sign.err or sign)
  end
  if sign == '!' then
    answer = answer:gsub('^@user_script: %d+: ', ''):match('^%-?(.-)%s*$') -- without the frame of servers before Redis 7
    refused = refused and answer
    answer = answer .. (' '):rep(-(3 + #answer) % LEVEL_SIZE) -- no reply with an error may be as long as levels alone
    return sign .. pack(ERROR, #answer, answer), refused
  end
  return sign .. answer
end
