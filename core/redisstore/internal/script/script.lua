-- The frame of the script as it is sent, and the format of its arguments and
-- its reply. script.go replaces each `include` by the file of that name, and
-- the constants of constants.lua by their values. Readers begin with fast_path.lua,
-- which has the bucket's arithmetic.
--
-- KEYS[i]: the state of one (policy, key), which is the records of its limits.
--
-- ARGV[1]: requests. Of each: for how many of KEYS it is, how many limits
-- follow (none: those of the request before), action, n, and how many times.
-- All but take are for one key, and all but take and END for one time. Then
--   if limits follow, for each of them its definition: tag, steps_hash, mode,
--     capacity, unit, gain, step
--   of RESERVE and the actions after it: more and ticket
--   of an action with ENDS: the ticket of the hold that ends, when it would end
--     by itself (if ACQUIRE made it: when it began; 0: not known), and how many
--     tokens come back (of END, for each of so many times)
--   of an action with EACH: the n of each limit
--   of an action with HELD: for how long each limit holds what is taken, in µs
-- A request with JOINT is decided together with the next one, up to one for 0
-- times: all take, or none does. Requests have EACH whose limits are on a
-- calendar, count another unit, or hold what is taken: without flags they would
-- take the fast path. TAKE with DRY takes nothing and only finds out whether there are
-- tokens.
--
-- ARGV[2]: now in µs since 1970; without it, or if it is '', this server's
-- clock counts.
--
-- ARGV[3]: calendars. Of each limit with one, in their order in ARGV[1]: its
-- deepest debt in units, how many periods follow, and when each begins.
--
-- Returns one string. If it is one request for one key and each time was
-- allowed: the levels that were written. Otherwise now, then an answer for each
-- key. An answer is one of these:
--   '+' or '-' (allowed or denied), or 'n' (allowed to take nothing, of a key
--     without state), and the level of each limit, refilled to now; then, to
--     RESERVE and AWAIT, when the tokens are due; to LEASE, AT_MOST and
--     ACQUIRE, how many tokens were taken beyond n
--   'a' or 'd' in place of '+' or '-': the same, and then two waits for each
--     limit, in µs: until it has n tokens (if allowed, one), and until it is
--     full. They are sent if they don't follow from the levels, as while tokens
--     are held
--   '!', the length of an error, and the error: why this key was not decided
--   '?': nothing was done, because periods of a calendar are needed that were
--     not sent
-- The answer to several times is either '*', how many were allowed, which are
-- the first ones, and the levels after these; or an answer to each time. An
-- error of one key does not concern the others. If the server refuses to write
-- every key, its error is the reply.

include fast_path

-- Every run of the script makes its functions anew, which costs more than the
-- arithmetic. So all else is one function, which is made only if there are
-- requests that do not take the fast path.
if not slow then
  return pack(NUMBER, now) .. table.concat(answers)
end
return (function()
  include slots
  include calendars
  include level
  include record
  include cut
  local lib
  local broken = false -- whether the holds of a page are missing or unreadable
  -- Returns the functions that only holds need. The first call makes them.
  local function holds_lib()
    if lib then
      return lib
    end
    lib = {}
    include hold_record
    include page
    include holds
    include promise
    return lib
  end
  include change
  include wait
  include stored
  include charge
  include keep
  include decide
  include request
  include together
end)()
