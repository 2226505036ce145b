-- The frame of the script as it is sent: script.go replaces each `include` by the file of that name, and the constants of
-- constants.lua by their values.
--
-- KEYS[i]   state of one (policy, key): the records of its limits
-- ARGV[1]   requests. Of each: for how many of KEYS it is, how many limits follow (none: those of the request before), action,
--           n, and how many times. All but take are for one key, and all but take and END for one time. Then
--           if limits follow, for each of them tag, steps, aligned, capacity, unit, gain, step, and its fill
--           of RESERVE and the actions above it: more and ticket
--           of an action with ENDS: the ticket of the hold that ends, when it would end by itself, and how many tokens come
--           back (of END, for each of so many times)
--           of an action with EACH: the n of each limit
--           One with JOINT belongs together with the next request: all take, or none does. The last of them has EACH. One
--           to take with DRY only finds out whether there are tokens
-- ARGV[2]   now in µs since 1970; without it, or if it is '', this server's clock counts
-- ARGV[3]   calendars: for each limit that is aligned to one the most units that it may owe, how many periods follow, and
--           when each of them begins, in the order in which these limits follow in ARGV[1]
--
-- Returns one string: what was written, if it is the records of a single key and every time was allowed. Otherwise now,
-- then an answer for each key. An answer is
--   '+' or '-' (allowed or denied), and the record of each limit, refilled to now
--   then, to RESERVE and AWAIT, when the tokens are due; to LEASE and AT_MOST, how many tokens are on it
--   or 'a' and 'd' for '+' and '-', and at the end two waits for each limit, in µs: for n (if allowed, for one more),
--     and until it is full. They are there if they do not follow from the levels, as while tokens are held
--   or '!', the length of an error, and the error: why this key was not decided
--   or '?': nothing was done, for it takes periods of a calendar that were not sent
-- To several times it is either '*', how many of them were allowed, which are the first, and the records after that; or an
-- answer to each.
-- The error of one key leaves the others alone. If the server refuses all keys, its error is the reply.

include usual

-- To make a function costs more than a sum, and every run makes its functions anew. So the rest is one function, which runs
-- only if there are requests that are not usual.
if not others then
  return pack(NUMBER, now) .. table.concat(answers)
end
return (function()
  include calendars
  include level
  include record
  local made
  local broken = false -- whether the holds of a block are not there
  -- What only holds need is made for the first of them.
  local function holding()
    if made then
      return made
    end
    made = {}
    include hold_record
    include block
    include holds
    include promise
    return made
  end
  include older
  include stored
  include charge
  include keep
  include decide
  include request
  include together
end)()
