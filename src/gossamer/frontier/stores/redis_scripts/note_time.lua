#!lua flags=allow-oom
-- Remembers the latest time that an owner of slots has named.
--
-- KEYS     `g:<crawl>:meta`
-- ARGV[1]  the time
-- Answers  nothing

local latest = call('HGET', KEYS[1], 'latest')
if not latest then
  return GONE
end
if tonumber(ARGV[1]) > tonumber(latest) then
  call('HSET', KEYS[1], 'latest', ARGV[1])
end
