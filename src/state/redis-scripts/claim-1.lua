#!lua flags=allow-oom
--[[
  Takes a key group over for an attempt: compare-and-set, upward only. From here on every write and fold of an older attempt is refused.

  KEYS[1]  marker
  ARGV[1]  attempt
  ARGV[2]  owner: '<attempt>:<who>', so that a repeated claim of one worker is told from another worker with the same number
  ARGV[3]  '1' = a checkpoint names state of this group: a marker that is not there must not be made anew
  ARGV[4]  number below every segment of the attempt
  Returns 1, or 0 = there is no marker and ARGV[3] is '1'.
  Errors: MILLRACE_OWNER <owner> <marker>, MILLRACE_FORMAT <format> <marker>
]]
local marker = redis.call('HMGET', KEYS[1], 'format', 'owner')
if not marker[1] then
  if ARGV[3] == '1' then return 0 end
  redis.call('HSET', KEYS[1], 'format', '1', 'owner', ARGV[2], 'sealed', ARGV[4], 'base', '', 'folding', '', 'records', '0', 'timers', '0')
  return 1
end
if marker[1] ~= '1' then return redis.error_reply('MILLRACE_FORMAT ' .. marker[1] .. ' ' .. KEYS[1]) end
if marker[2] == ARGV[2] then return 1 end
if tonumber(string.match(marker[2] or '0', '^%d+')) >= tonumber(ARGV[1]) then
  return redis.error_reply('MILLRACE_OWNER ' .. marker[2] .. ' ' .. KEYS[1])
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'sealed', ARGV[4])
return 1
