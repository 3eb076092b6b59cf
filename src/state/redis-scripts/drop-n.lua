#!lua flags=allow-oom
--[[
  Removes segments that no checkpoint names: what attempts left that died. Removes the base, too, if it is told so.

  KEYS[1]  marker
  KEYS[2]  base: values        KEYS[3]  base: timers
  KEYS[4…] for each segment its values and its timers
  ARGV[1]  owner
  ARGV[2]  '1' = the base goes as well
  ARGV[3…] names of the segments
  Returns how many keys went.
  Errors: MILLRACE_OWNER <owner> <marker>
]]
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner ~= ARGV[1] then return redis.error_reply('MILLRACE_OWNER ' .. (owner or 'nobody') .. ' ' .. KEYS[1]) end
for i = 3, #ARGV do redis.call('HDEL', KEYS[1], 'segment:' .. ARGV[i], 'records:' .. ARGV[i], 'timers:' .. ARGV[i]) end
local first = 4
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], 'base', '', 'folding', '', 'records', '0', 'timers', '0')
  first = 2
end
if first > #KEYS then return 0 end
return redis.call('UNLINK', unpack(KEYS, first))
