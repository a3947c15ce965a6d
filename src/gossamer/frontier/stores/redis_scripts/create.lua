#!lua
-- Makes a frontier, unless there is one.
--
-- KEYS     `g:<crawl>:meta`, `gossamer:crawls`, headers of all slots
-- ARGV     crawl, number of slots, version, who makes it, "1" if it may be made
-- Answers  [version, number of slots] of the frontier that is there now; nothing if there is none

local meta, crawls = KEYS[1], KEYS[2]
local known = call('HMGET', meta, 'version', 'slots')
if known[1] then
  return known
end
if ARGV[5] ~= '1' then
  return false
end
if call('HEXISTS', crawls, ARGV[1]) == 1 then
  return {err = 'PARTLY this frontier was removed, but not all of it'}
end
for i = 3, #KEYS do
  call('SET', KEYS[i], pack(HEADER, 0, 0, 0, 0, 0, 0, 0))
end
call('HSET', crawls, ARGV[1], ARGV[4])
call('HSET', meta, 'version', ARGV[3], 'slots', ARGV[2], 'created_by', ARGV[4], 'run', 0, 'offset', 0, 'latest', 0,
  'boot', 0, 'boot_offset', 0)
return {ARGV[3], ARGV[2]}
