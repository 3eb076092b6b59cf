#!lua flags=allow-oom
--[[
  One piece of making a segment part of the base of its key group. Repeatable: a piece that ran before changes nothing, and whoever owns
  the group begins again at cursor 0 after a crash. The segment stays as it is until all of it is in the base.

    base = previous, folding = ''  ──first piece──▶  folding = segment  ──last piece──▶  base = segment, folding = ''

  KEYS[1]  marker
  KEYS[2]  segment: values     KEYS[3]  segment: timers
  KEYS[4]  base: values        KEYS[5]  base: timers
  ARGV[1]  owner
  ARGV[2]  segment to fold     ARGV[3]  segment that the base must hold before
  ARGV[4]  where the piece before ended, '0' at first
  ARGV[5]  about how many records to fold
  ARGV[6]  records that the segment must have    ARGV[7]  timers likewise
  Returns { where the piece ended, records of the base, timers of the base }; '0' = the base holds the segment.
  Errors: MILLRACE_OWNER <owner> <marker>, MILLRACE_CHAIN <base> <folding> <marker>, MILLRACE_SHORT <number> <expected> <key>
]]
local marker = redis.call('HMGET', KEYS[1], 'owner', 'base', 'folding', 'records', 'timers')
if marker[1] ~= ARGV[1] then
  return redis.error_reply('MILLRACE_OWNER ' .. (marker[1] or 'nobody') .. ' ' .. KEYS[1])
end
local function short(key, expected)
  local held = redis.call('HLEN', key)
  if held ~= expected then return redis.error_reply('MILLRACE_SHORT ' .. held .. ' ' .. expected .. ' ' .. key) end
end

-- Each piece counts what it changed, so that this holds before every one, repeated or not. Without it a base that is gone would begin anew.
local records, timers = tonumber(marker[4]), tonumber(marker[5])
local lost = short(KEYS[4], records) or short(KEYS[5], timers)
if lost then return lost end
if marker[2] == ARGV[2] and marker[3] == '' then return { '0', records, timers } end
if marker[2] ~= ARGV[3] or (marker[3] ~= '' and marker[3] ~= ARGV[2]) then
  return redis.error_reply("MILLRACE_CHAIN '" .. marker[2] .. "' '" .. marker[3] .. "' " .. KEYS[1])
end
lost = short(KEYS[2], tonumber(ARGV[6])) or short(KEYS[3], tonumber(ARGV[7]))
if lost then return lost end

-- unpack() takes some thousand elements at the most
local CHUNK = 4000
local function onMany(command, key, fields)
  local changed = 0
  for first = 1, #fields, CHUNK do
    changed = changed + redis.call(command, key, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))
  end
  return changed
end

-- A cursor means something to the process that gave it only: after a restart or a failover the segment is gone through again.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local cursor = string.match(ARGV[4], '^' .. process .. '/(%d+)$') or '0'
local page = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', ARGV[5])
local found = page[2]
local keys = {}
for i = 1, #found, 2 do keys[#keys + 1] = found[i] end

local held = {}
local timed = tonumber(ARGV[7]) > 0
if timed then
  for first = 1, #keys, CHUNK do
    local last = math.min(first + CHUNK - 1, #keys)
    local some = redis.call('HMGET', KEYS[3], unpack(keys, first, last))
    for i = first, last do held[i] = some[i - first + 1] end
  end
end

-- A key with timers and no value stays in the base with an empty one, so that whoever goes through the values comes by it.
local set, removed, setTimers, removedTimers = {}, {}, {}, {}
for i = 1, #keys do
  local value = found[2 * i]
  if held[i] then
    setTimers[#setTimers + 1] = keys[i]
    setTimers[#setTimers + 1] = held[i]
  else
    removedTimers[#removedTimers + 1] = keys[i]
  end
  if value == '' and not held[i] then
    removed[#removed + 1] = keys[i]
  else
    set[#set + 1] = keys[i]
    set[#set + 1] = value
  end
end
records = records + onMany('HSET', KEYS[4], set) - onMany('HDEL', KEYS[4], removed)
if timed or timers > 0 then
  timers = timers + onMany('HSET', KEYS[5], setTimers) - onMany('HDEL', KEYS[5], removedTimers)
end

if page[1] == '0' then
  redis.call('HSET', KEYS[1], 'base', ARGV[2], 'folding', '', 'records', records, 'timers', timers)
  redis.call('HDEL', KEYS[1], 'segment:' .. ARGV[2], 'records:' .. ARGV[2], 'timers:' .. ARGV[2])
  redis.call('UNLINK', KEYS[2], KEYS[3])
else
  redis.call('HSET', KEYS[1], 'folding', ARGV[2], 'records', records, 'timers', timers)
end
return { page[1] == '0' and '0' or process .. '/' .. page[1], records, timers }
