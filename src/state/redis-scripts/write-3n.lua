#!lua
--[[
  Puts records into one segment, in one or more key groups; all of it or nothing.

  KEYS     three a group: marker, values of the segment, timers of the segment
  ARGV[1]  owner
  ARGV[2]  number of the segment, to be above the marker's 'sealed'
  ARGV[3]  name of the segment
  ARGV[4]  MessagePack: for each group { { key, value, … }, { position of a record, its timers, … } }; of one key the last one wins
  Returns three numbers a group: writes that this segment had in the group, this one included; its records; its timers.
  Errors: MILLRACE_OWNER <owner> <marker>, MILLRACE_SEALED <number> <marker>
]]
local groups = cmsgpack.unpack(ARGV[4])
for g = 1, #groups do
  local marker = redis.call('HMGET', KEYS[3 * g - 2], 'owner', 'sealed')
  if marker[1] ~= ARGV[1] then
    return redis.error_reply('MILLRACE_OWNER ' .. (marker[1] or 'nobody') .. ' ' .. KEYS[3 * g - 2])
  end
  if tonumber(marker[2]) >= tonumber(ARGV[2]) then
    return redis.error_reply('MILLRACE_SEALED ' .. marker[2] .. ' ' .. KEYS[3 * g - 2])
  end
end

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
  if #removed > 0 then redis.call('HDEL', key, unpack(removed)) end
  if #set > 0 then redis.call('HSET', key, unpack(set)) end
end

local reply = {}
for g = 1, #groups do
  local marker, values, timers = KEYS[3 * g - 2], KEYS[3 * g - 1], KEYS[3 * g]
  local records, timed = groups[g][1], groups[g][2]
  redis.call('HSET', values, unpack(records))
  if #timed > 0 or redis.call('EXISTS', timers) == 1 then writeTimers(timers, records, timed) end
  reply[#reply + 1] = redis.call('HINCRBY', marker, 'segment:' .. ARGV[3], 1)
  reply[#reply + 1] = redis.call('HLEN', values)
  reply[#reply + 1] = redis.call('HLEN', timers)
end
return reply
