#!lua flags=no-writes
--[[
  Values of keys, each from the newest hash that has it. A hash that is looked into must hold as many records as were written: one that was
  removed, or has lost some, has nothing to say about what was in it.

  KEYS     for each group its marker, if it is asked for; then the hashes of its values, newest first, the base last
  ARGV[1]  MessagePack: for each group { number of its hashes, { records of each hash, -1 = as the marker says }, { key, … }, 1 = with marker }
  Returns the values in the order of the keys, nil = in none of the hashes; an empty value = removed.
  Errors: MILLRACE_GONE <number> <expected> <key of the hash>
]]
local reply, size, before = {}, 0, 0

-- What the marker counts of each hash, false = nothing. Of the base it always does.
local function counted(marker, first, last)
  local fields = {}
  for i = first, last do
    local name = string.match(KEYS[i], '[^:]*$')
    fields[#fields + 1] = name == 'base' and 'records' or 'records:' .. name
  end
  return redis.call('HMGET', marker, unpack(fields))
end

for _, group in ipairs(cmsgpack.unpack(ARGV[1])) do
  local hashes, expected, wanted = group[1], group[2], group[3]
  local counts
  if group[4] == 1 then
    before = before + 1
    counts = counted(KEYS[before], before + 1, before + hashes)
  end
  local positions = {}
  for i = 1, #wanted do
    positions[i] = size + i
    reply[size + i] = false
  end
  size = size + #wanted
  for h = 1, hashes do
    if #wanted == 0 then break end
    local key = KEYS[before + h]
    local must = expected[h]
    if must < 0 then must = tonumber(counts[h] or (string.sub(key, -5) == ':base' and -1)) end
    if must then
      local held = redis.call('HLEN', key)
      if held ~= must then return redis.error_reply('MILLRACE_GONE ' .. held .. ' ' .. must .. ' ' .. key) end
    end
    local found = redis.call('HMGET', key, unpack(wanted))
    local open, places = {}, {}
    for i = 1, #wanted do
      if found[i] then
        reply[positions[i]] = found[i]
      else
        open[#open + 1] = wanted[i]
        places[#places + 1] = positions[i]
      end
    end
    wanted, positions = open, places
  end
  before = before + hashes
end
return reply
