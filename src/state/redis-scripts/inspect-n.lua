#!lua flags=no-writes
--[[
  What a key group holds, in numbers: to be compared with what a checkpoint or a running attempt knows of it.

  KEYS[1]  marker
  KEYS[2]  base: values        KEYS[3]  base: timers
  KEYS[4…] for each segment its values and its timers
  Returns the fields of the marker as one array (empty = no marker), then HLEN of every other key, in order.
]]
local reply = { redis.call('HGETALL', KEYS[1]) }
for i = 2, #KEYS do reply[i] = redis.call('HLEN', KEYS[i]) end
return reply
