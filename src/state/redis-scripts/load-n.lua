#!lua flags=no-writes
--[[
  Values of keys, each from the newest hash that has it.

  KEYS     for each group the hashes of its values, newest first, the base last
  ARGV[1]  MessagePack: for each group { number of its hashes, '1' or '0' for each hash = it must exist, { key, … } }
  Returns the values in the order of the keys, nil = in none of the hashes; an empty value = removed.
  Errors: MILLRACE_GONE <key of the hash>
]]
local reply, size, before = {}, 0, 0
local silent = {}
for _, group in ipairs(cmsgpack.unpack(ARGV[1])) do
  local hashes, needed, wanted = group[1], group[2], group[3]
  local positions = {}
  for i = 1, #wanted do
    positions[i] = size + i
    reply[size + i] = false
  end
  size = size + #wanted
  for h = 1, hashes do
    if #wanted == 0 then break end
    local found = redis.call('HMGET', KEYS[before + h], unpack(wanted))
    local open, places = {}, {}
    for i = 1, #wanted do
      if found[i] then
        reply[positions[i]] = found[i]
      else
        open[#open + 1] = wanted[i]
        places[#places + 1] = positions[i]
      end
    end
    if #open == #wanted and string.sub(needed, h, h) == '1' then silent[#silent + 1] = KEYS[before + h] end
    wanted, positions = open, places
  end
  before = before + hashes
end
-- A hash that had nothing to say may be gone. All are asked for at once; which one it is matters only if some is.
local CHUNK = 4000
for first = 1, #silent, CHUNK do
  local last = math.min(first + CHUNK - 1, #silent)
  if redis.call('EXISTS', unpack(silent, first, last)) < last - first + 1 then
    for i = first, last do
      if redis.call('EXISTS', silent[i]) == 0 then return redis.error_reply('MILLRACE_GONE ' .. silent[i]) end
    end
  end
end
return reply
