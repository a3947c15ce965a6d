#!lua flags=no-writes
-- What time it is.
--
-- KEYS     `g:<crawl>:meta`
-- Answers  seconds and microseconds of the server's clock; offset, latest, boot and boot_offset of the store

local facts = call('HMGET', KEYS[1], 'offset', 'latest', 'boot', 'boot_offset')
if not facts[1] then
  return GONE
end
local time = call('TIME')
return {time[1], time[2], facts[1], facts[2], facts[3], facts[4]}
