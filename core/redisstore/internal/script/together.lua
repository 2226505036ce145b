-- Decides the requests that do not take the fast path, and returns the script's reply.

-- Answers requests that are decided together: all take, or none does. First
-- each is decided without taking anything. If all are allowed, each is decided
-- again, and takes. Returns their answers, and the server's error if it refused
-- to write a key.
local function together(group)
  local found, refused, states, all = {}, nil, {}, true
  for g, r in ipairs(group) do
    states[g] = pcall('GET', r.key)
    local said
    found[g], said = answer_to(r, states[g], true)
    local sign = found[g]:sub(1, 1)
    all, refused = all and (sign == '+' or sign == 'a' or sign == 'n'), refused or said
  end
  if not all then
    return found, refused
  end
  local taken, copies = {}, {}
  for g, r in ipairs(group) do
    copies[g] = type(states[g]) == 'table' and holds_lib().copy(r.key)
    taken[g], refused = answer_to(r, pcall('GET', r.key), false)
    local sign = taken[g]:sub(1, 1)
    if sign == '!' or sign == '?' then
      -- The server refuses to write this key, or writing it needs periods that
      -- were not sent: restore the keys before it.
      for h = 1, g - 1 do
        if copies[h] then
          holds_lib().restore(group[h].key, copies[h])
        elseif states[h] then
          pcall('SET', group[h].key, states[h], 'KEEPTTL')
        else
          pcall('DEL', group[h].key)
        end
      end
      found[g] = taken[g]
      return found, refused
    end
  end
  return taken
end

-- Answers a request as many times as it says. Returns the answers, and the
-- server's error if it refused to write each time.
local function separately(r)
  local each, refused = {}, nil
  for t = 1, r.times do
    local said
    each[t], said = answer_to(r, t == 1 and r.state or pcall('GET', r.key), r.dry)
    refused = (t == 1 or refused) and said
  end
  return { table.concat(each) }, refused
end

local refused, refusal, group = 0, nil, {}
answers = answers or {}
for o = 1, #slow do
  local r = slow[o]
  read(r)
  group[#group + 1] = r
  if not r.joint then
    local list, said
    if group[2] then
      list, said = together(group)
    else
      list, said = separately(r)
    end
    if said then
      refused, refusal = refused + #group, said
    end
    for g, member in ipairs(group) do
      answers[2 * member.place - 1], answers[2 * member.place] = '', list[g]
    end
    group = {}
  end
end
if refused == #keys then
  return { err = refusal }
end
return pack(NUMBER, now) .. table.concat(answers)
