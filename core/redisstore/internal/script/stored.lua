-- Gives each limit what is stored of it: its records and holds; `last` is nil if it was not used yet. Returns an error if this
-- script did not write the state. s gets the records of other limits, until when they matter, and whether there are holds
-- on these limits and on others. Other limits are kept as long as they matter: when two versions of a policy are in use at
-- once, neither forgets what the other's limits lost. s.gone gets the fields of those that no longer do.
local function arrange(s, limits, state)
  local own, seen, others, n = {}, {}, {}, 0
  for _, limit in ipairs(limits) do
    own[limit.tag] = limit
  end
  local from, size = 1, #state
  while from <= size do
    local last, first = read_record(state, from), from
    if not last or seen[last.tag] or last.tag == 0 then
      return 'is not a rate limit state'
    end
    local tag, older, holds = last.tag, nil, nil
    seen[tag] = true
    local name = state:sub(from, from + 3)
    from = from + RECORD_SIZE
    local following = state:sub(from, from + 3)
    if following == name then
      older = read_record(state, from)
      if not older then
        return 'is not a rate limit state'
      elseif older.pace == 0 then
        older = nil -- a hold of the former layout
      else
        from = from + RECORD_SIZE
        following = state:sub(from, from + 3)
      end
    end
    local blocks = following == NO_TAG
    if blocks then
      holds, from = holding().read(s.key, tag, state, from)
    elseif following == name then
      holds, from = holding().former_holds(s.key, tag, state, from, last.at)
    end
    if not from or blocks and not s.hashed then
      return 'is not a rate limit state'
    end
    local limit, matters = own[tag], last.keep
    if older then
      matters = math.max(matters, until_full(older))
    end
    if limit then
      limit.last, limit.older, limit.holds = last, older, holds or nil
      if holds then
        s.held, holds.gone = true, s.gone
      end
    elseif matters > now then
      n = n + 1
      s.keeps = math.max(s.keeps, matters)
      others[n] = state:sub(first, from - 1)
      s.fields = s.fields or blocks
    else
      for b = 1, blocks and #holds.heads or 0, HEAD do
        s.gone[#s.gone + 1] = pack(FIELD, tag, holds.heads[b])
      end
    end
  end
  if n > MAX_OTHERS then
    return 'is in use under more than 256 limits'
  end
  s.others = table.concat(others)
end

-- What is stored of a key, which GET has answered with `state`. Returns an error instead if these limits can't use it, and
-- whether the server is at fault, not the key.
local function stored_of(key, state, limits)
  local s = {
    key = key, hashed = false, -- while tokens are held the key is a hash
    others = '', keeps = 0, held = false, fields = false, gone = {}, -- fields: whether there are some of other limits
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
    limit.last, limit.older, limit.holds, limit.kept, limit.lost, limit.also, limit.retry = nil, nil, nil, nil, 0, nil, nil
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
