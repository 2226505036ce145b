-- Constants of the script. Its text has their values in place of their names,
-- so a run spends nothing on them. The same constants of the Go side are
-- compared by TestScriptAndGoShareTheirConstants. Formats are those of
-- struct.pack.

-- A limit's record is the definition that wrote it (tag, steps_hash, mode,
-- capacity, unit, gain, step) and its level: units, the instant of the write,
-- and the step until which it matters. What is cut from it may follow (tag,
-- tokens, base), and then the limit's holds.
local RECORD, RECORD_SIZE = '>I4I2BI7I7I7I7I7I7I7', 56
local DEFINITION, DEFINITION_SIZE, LEVEL, LEVEL_SIZE = '>I4I2BI7I7I7I7', 35, '>I7I7I7', 21
local CUT, CUT_SIZE = '>I4dI7', 19
local ZERO_UNITS = 2 ^ 52 -- how a level of 0 is stored: numbers below it are debts
-- While tokens are held the key is a hash. One with a limit of slots stays a
-- hash. Its field '' has the records, and behind that of a limit with holds: 0;
-- the stepping (steps_hash, unit, gain, phase); 1 if a clock has moved the
-- holds; how many holds are in front and how many pages there are; when the
-- first hold of the pages ends. Then the holds in front, and the head of each
-- page: id, how many holds, their tokens, end and ticket of the last, due,
-- deficit. A page's holds are a field of their own, which may begin with holds
-- that have ended: the last so many count.
local HOLDS, HOLDS_SIZE = '>I4I2I7I7I7I2I2I2I7', 40
local HOLD, HOLD_SIZE = '>I7I7I7', 21
local TICKET_AT, TICKET_SIZE = 10, 5 -- where the last bytes of a ticket are in it
local PAGE, PAGE_SIZE = '>I2I2I7I7I7I7I7', 39
local FIELD = '>I4I2' -- the name of a page's field: tag, id
local NO_TAG = '\0\0\0\0'
local REQUEST, REQUEST_SIZE = '>I2I2BdI2', 15
local PAIR, PAIR_SIZE = '>dd', 16
local NUMBER, NUMBER_SIZE, ERROR, COUNT = '>d', 8, '>I2c0', '>I2'
local ENDING, ENDING_SIZE = '>ddd', 24

-- Actions, and flags that are added to them
local TAKE, REFUND, END, RESERVE, AWAIT, LEASE, AT_MOST, ACQUIRE = 0, 1, 2, 3, 4, 5, 6, 7
local DRY, HELD, JOINT, EACH, ENDS = 8, 16, 32, 64, 128
local ALIGNED, CALENDAR, SLOTS = 1, 2, 3 -- the modes in a definition; 0: neither
-- Requests with flags that fast_path.lua decides: EACH; EACH and HELD; the same of
-- ACQUIRE, without and with ENDS; and of END
local TAKE_EACH, TAKE_HELD, ACQUIRE_HELD, EXTEND_HELD, END_HELD = 64, 80, 87, 215, 210

-- Where a page's numbers are, counted from its place in the list of heads; and
-- how many these are
local ITS_ID, ITS_COUNT, ITS_TOKENS, ITS_END, ITS_TICKET, ITS_DUE, ITS_DEFICIT, HEAD = 0, 1, 2, 3, 4, 5, 6, 7

local LEASE_LIFE, FIRST_LEASE, AT_ONCE = 2000000, 2 ^ 52, 2 ^ 51
local FIRST_RETURNING = 9002801208229888 -- tokens of holds from this ticket on come back when they end
local MAX_DEBT = 2 ^ 51 - 1
local MAX_FULL = 2 ^ 50 -- units: more than any bucket
local MAX_HELD = 2 ^ 52 -- tokens: more than any bucket's Capacity and deepest debt together
local FOREVER = 2 ^ 53
local LATEST = 2 ^ 52 -- the last instant of a clock, in 2112: later ones plus a wait may exceed 2^53
local ROUNDING_ERROR = 2 ^ -52
local MAX_OTHERS, MAX_HOLDS, MAX_PERIODS, MAX_PAGE = 256, 2048, 4096, 64
local SLOT_PAGE = 48 -- the most holds in a page of slots
local MARGIN = 1000 -- ms: state is kept at least so much longer than it matters
local GRAIN = 2000000 -- µs: that moment is rounded up to a multiple of it, so most writes of a busy key keep its TTL
local FINE, COARSER = 64, 8 -- if it is more than 64 grains ahead, of a grain 8 times as long; and so on
local MAX_INT = 2 ^ 31 -- below it '%d' is right on any server, and cheaper than how Redis writes a number
