#!lua flags=allow-oom
--[[
  Removes segments that no checkpoint names: what attempts left that died.

  KEYS[1]  marker
  KEYS[2…] for each segment its values and its timers
  ARGV[1]  owner
  ARGV[2…] names of the segments
  Returns how many keys went.
  Errors: MILLRACE_OWNER <owner> <marker>
]]
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner ~= ARGV[1] then return redis.error_reply('MILLRACE_OWNER ' .. (owner or 'nobody') .. ' ' .. KEYS[1]) end
for i = 2, #ARGV do redis.call('HDEL', KEYS[1], 'segment:' .. ARGV[i]) end
return redis.call('UNLINK', unpack(KEYS, 2))
