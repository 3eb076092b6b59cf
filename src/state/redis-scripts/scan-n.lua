#!lua flags=no-writes
--[[
  One page of the records of one hash of a key group, without those that a newer hash replaces. All of these hashes must hold as much as was
  written: of one that is gone nothing would be found, and older values would not be replaced.

  KEYS[1]  marker
  KEYS[2]  values of the hash  KEYS[3]  timers of the hash
  KEYS[4…] values of the newer hashes
  ARGV[1]  where the page before ended, '0' at first
  ARGV[2]  about how many records
  ARGV[3]  'records', or 'timers' = keys that have timers, and these only
  ARGV[4…] what each hash must hold, from KEYS[2] on; -1 = as the marker says
  Returns where the page ended ('0' = at the end), then for each record its key and its value, and its timers (nil = none); with 'timers'
  the key and its timers.
  Errors: MILLRACE_RESTARTED <process>: another process answered the pages before, and its cursors mean nothing to this one;
  MILLRACE_GONE <number> <expected> <key>
]]
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local cursor = ARGV[1] == '0' and '0' or string.match(ARGV[1], '^' .. process .. '/(%d+)$')
if not cursor then return redis.error_reply('MILLRACE_RESTARTED ' .. process) end

-- What the marker counts of a hash, nil = nothing. Of the base it always does.
local function counted(key)
  local name = string.match(key, '[^:]*$')
  local timed = string.match(name, '^(.*)%-timers$')
  local segment, kind = timed or name, timed and 'timers' or 'records'
  if segment == 'base' then return tonumber(redis.call('HGET', KEYS[1], kind) or '-1') end
  return tonumber(redis.call('HGET', KEYS[1], kind .. ':' .. segment))
end

local timers = 0
for i = 2, #KEYS do
  local expected = tonumber(ARGV[i + 2])
  if expected < 0 then expected = counted(KEYS[i]) end
  local held = redis.call('HLEN', KEYS[i])
  if expected and held ~= expected then
    return redis.error_reply('MILLRACE_GONE ' .. held .. ' ' .. expected .. ' ' .. KEYS[i])
  end
  if i == 3 then timers = held end
end
local timersOnly = ARGV[3] == 'timers'
local page = redis.call('HSCAN', timersOnly and KEYS[3] or KEYS[2], cursor, 'COUNT', ARGV[2])
local found = page[2]
local timed = not timersOnly and timers > 0
local reply = { page[1] == '0' and '0' or process .. '/' .. page[1] }
for i = 1, #found, 2 do
  local replaced = false
  for h = 4, #KEYS do
    if redis.call('HEXISTS', KEYS[h], found[i]) == 1 then
      replaced = true
      break
    end
  end
  if not replaced then
    local at = #reply
    reply[at + 1] = found[i]
    reply[at + 2] = found[i + 1]
    if not timersOnly then reply[at + 3] = timed and redis.call('HGET', KEYS[3], found[i]) end
  end
end
return reply
