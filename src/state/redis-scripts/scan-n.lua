#!lua flags=no-writes
--[[
  One page of the records of one hash of a key group, without those that a newer hash replaces.

  KEYS[1]  values of the hash  KEYS[2]  timers of the hash
  KEYS[3…] values of the newer hashes
  ARGV[1]  where the page before ended, '0' at first
  ARGV[2]  about how many records
  ARGV[3]  'records', or 'timers' = keys that have timers, and these only
  Returns where the page ended ('0' = at the end), then for each record its key and its value, and its timers (nil = none); with 'timers'
  the key and its timers.
  Errors: MILLRACE_RESTARTED <process>: another process answered the pages before, and its cursors mean nothing to this one
]]
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local cursor = ARGV[1] == '0' and '0' or string.match(ARGV[1], '^' .. process .. '/(%d+)$')
if not cursor then return redis.error_reply('MILLRACE_RESTARTED ' .. process) end
local timersOnly = ARGV[3] == 'timers'
local page = redis.call('HSCAN', timersOnly and KEYS[2] or KEYS[1], cursor, 'COUNT', ARGV[2])
local found = page[2]
local timed = not timersOnly and redis.call('EXISTS', KEYS[2]) == 1
local reply = { page[1] == '0' and '0' or process .. '/' .. page[1] }
for i = 1, #found, 2 do
  local replaced = false
  for h = 3, #KEYS do
    if redis.call('HEXISTS', KEYS[h], found[i]) == 1 then
      replaced = true
      break
    end
  end
  if not replaced then
    local at = #reply
    reply[at + 1] = found[i]
    reply[at + 2] = found[i + 1]
    if not timersOnly then reply[at + 3] = timed and redis.call('HGET', KEYS[2], found[i]) end
  end
end
return reply
