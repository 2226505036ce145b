-- Reads the state of a key (in Go: stored.go).

-- Sets limit.last and limit.holds, or limit.slots, of each limit; `last` is nil
-- if the limit was not used yet. Returns an error if this script did not write
-- the state.
--
-- s gets the records of other limits as long as they matter: two versions of a
-- policy may be in use at once, and each must find its own. s.keeps is until
-- when they matter, s.held is whether `limits` have holds, s.fields whether the
-- others have, and s.removed gets the fields of holds that no longer matter.
local function arrange(s, limits, state)
  local own, seen, others, n = {}, {}, {}, 0
  for _, limit in ipairs(limits) do
    own[limit.tag] = limit
  end
  local from, size = 1, #state
  while from <= size do
    local first, last, behind = from, read_record(state, from)
    if not last or seen[last.tag] or last.tag == 0 then
      return 'is not a rate limit state'
    end
    local tag, limit, holds, pages = last.tag, own[last.tag], nil, false
    seen[tag] = true
    if limit and limit.is_slots then
      limit.slots, from = slots_lib.read(state, from, s.key)
      pages = from and limit.slots.pages > 0
      s.held = s.held or pages
    else
      from, pages = behind, sub(state, behind, behind + 3) == NO_TAG
      if pages then
        holds, from = holds_lib().read(s.key, tag, state, from)
      end
    end
    if not from or pages and not s.hashed then
      return 'is not a rate limit state'
    end
    if limit then
      limit.last, limit.holds = last, holds
      if holds then
        s.held, holds.removed = true, s.removed
      end
    elseif last.keep > now then
      n = n + 1
      s.keeps = math.max(s.keeps, last.keep)
      others[n] = state:sub(first, from - 1)
      s.fields = s.fields or pages
    else
      for b = 1, pages and #holds.heads or 0, HEAD do
        s.removed[#s.removed + 1] = pack(FIELD, tag, holds.heads[b])
      end
    end
  end
  if n > MAX_OTHERS then
    return 'is in use under more than 256 limits'
  end
  s.others = table.concat(others)
end

-- Reads the state of a key, for which GET has returned `state`. Returns nil if
-- it can't be used, an error, and whether the error is the server's and not the
-- key's.
local function stored_of(key, state, limits)
  local s = {
    key = key, hashed = false, -- hashed: the key is a hash, because tokens are held
    others = '', keeps = 0, held = false, fields = false, removed = {},
  }
  if type(state) == 'table' then
    local records = state.err:find('^%-?WRONGTYPE') and pcall('HGET', key, '')
    if type(records) ~= 'string' then
      return nil, state.err, not state.err:find('^%-?WRONGTYPE')
    end
    state, s.hashed = records, true
  end
  s.new = not state
  for i = 1, #limits do
    local limit = limits[i]
    limit.last, limit.holds, limit.retry = nil, nil, nil
    limit.slots = limit.is_slots and slots_lib.none(key, limit.tag)
  end
  if not state then
    return s
  elseif state:sub(1, 4) == NO_TAG then
    return nil, 'was written by a later version of this library'
  elseif #state == 0 then
    return nil, 'is not a rate limit state'
  end
  local err = arrange(s, limits, state)
  return not err and s, err
end
