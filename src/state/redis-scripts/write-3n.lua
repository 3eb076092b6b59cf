#!lua
--[[
  Puts records into one segment, in one or more key groups; all of it or nothing. The marker counts what the segment must hold: a segment
  that lost something is not written to, or new records would make up for those that are gone.

  KEYS     three a group: marker, values of the segment, timers of the segment
  ARGV[1]  owner
  ARGV[2]  number of the segment, to be above the marker's 'sealed'
  ARGV[3]  name of the segment
  ARGV[4]  MessagePack: for each group { { key, value, … }, { position of a record, its timers, … } }; of one key the last one wins
  Returns three numbers a group: writes that this segment had in the group, this one included; its records; its timers.
  Errors: MILLRACE_OWNER <owner> <marker>, MILLRACE_SEALED <number> <marker>, MILLRACE_CHANGED <number> <counted> <key>
]]
local groups = cmsgpack.unpack(ARGV[4])
local counts = {}
for g = 1, #groups do
  local marker = redis.call(
    'HMGET', KEYS[3 * g - 2], 'owner', 'sealed', 'segment:' .. ARGV[3], 'records:' .. ARGV[3], 'timers:' .. ARGV[3]
  )
  if marker[1] ~= ARGV[1] then
    return redis.error_reply('MILLRACE_OWNER ' .. (marker[1] or 'nobody') .. ' ' .. KEYS[3 * g - 2])
  end
  if tonumber(marker[2]) >= tonumber(ARGV[2]) then
    return redis.error_reply('MILLRACE_SEALED ' .. marker[2] .. ' ' .. KEYS[3 * g - 2])
  end
  counts[g] = { tonumber(marker[3] or '0'), tonumber(marker[4] or '0'), tonumber(marker[5] or '0') }
  for i = 2, 3 do
    local key = KEYS[3 * g - 3 + i]
    local held = redis.call('HLEN', key)
    if held ~= counts[g][i] then
      return redis.error_reply('MILLRACE_CHANGED ' .. held .. ' ' .. counts[g][i] .. ' ' .. key)
    end
  end
end

-- Returns by how much the number of timers grew.
local function writeTimers(key, records, timed)
  local at, last = {}, {}
  for i = 1, #timed, 2 do at[timed[i]] = timed[i + 1] end
  for i = 1, #records / 2 do last[records[2 * i - 1]] = at[i] or false end
  local set, removed = {}, {}
  for record, timers in pairs(last) do
    if timers then
      set[#set + 1] = record
      set[#set + 1] = timers
    else
      removed[#removed + 1] = record
    end
  end
  local grown = 0
  if #removed > 0 then grown = grown - redis.call('HDEL', key, unpack(removed)) end
  if #set > 0 then grown = grown + redis.call('HSET', key, unpack(set)) end
  return grown
end

local reply = {}
for g = 1, #groups do
  local marker, values, timers = KEYS[3 * g - 2], KEYS[3 * g - 1], KEYS[3 * g]
  local records, timed = groups[g][1], groups[g][2]
  local count = counts[g]
  count[1] = count[1] + 1
  count[2] = count[2] + redis.call('HSET', values, unpack(records))
  if #timed > 0 or count[3] > 0 then count[3] = count[3] + writeTimers(timers, records, timed) end
  redis.call('HSET', marker, 'segment:' .. ARGV[3], count[1], 'records:' .. ARGV[3], count[2], 'timers:' .. ARGV[3], count[3])
  for i = 1, 3 do reply[#reply + 1] = count[i] end
end
return reply
