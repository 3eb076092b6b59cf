#!lua flags=allow-oom
--[[
  Closes segments: no write reaches them any more, not even one that was sent long ago and comes late.

  KEYS     three a segment of a group: marker, values, timers
  ARGV[1]  owner
  ARGV[2]  number up to which segments are closed
  ARGV[3…] name of the segment, one for three keys
  Returns three numbers a segment: its writes, its records, its timers.
  Errors: MILLRACE_OWNER <owner> <marker>, MILLRACE_CHANGED <number> <counted> <key>
]]
local reply = {}
for g = 1, #KEYS / 3 do
  local marker, name = KEYS[3 * g - 2], ARGV[g + 2]
  local fields = redis.call('HMGET', marker, 'owner', 'sealed', 'segment:' .. name, 'records:' .. name, 'timers:' .. name)
  if fields[1] ~= ARGV[1] then
    return redis.error_reply('MILLRACE_OWNER ' .. (fields[1] or 'nobody') .. ' ' .. marker)
  end
  -- Written even if nothing changes: what waits for durability after it waits for this write, and so for all before it.
  redis.call('HSET', marker, 'sealed', math.max(tonumber(fields[2]), tonumber(ARGV[2])))
  reply[#reply + 1] = tonumber(fields[3] or '0')
  for i = 1, 2 do
    local key = KEYS[3 * g - 2 + i]
    local held, counted = redis.call('HLEN', key), tonumber(fields[i + 3] or '0')
    if held ~= counted then return redis.error_reply('MILLRACE_CHANGED ' .. held .. ' ' .. counted .. ' ' .. key) end
    reply[#reply + 1] = held
  end
end
return reply
