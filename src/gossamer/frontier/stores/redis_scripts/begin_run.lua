#!lua flags=allow-oom
-- Numbers a run and sets the store's clock.
--
-- KEYS     `g:<crawl>:meta`
-- ARGV     a word that no other call has, offset, latest, boot, boot_offset
-- Answers  the number of the run; the same again for the same word

local meta = KEYS[1]
local known = call('HMGET', meta, 'run', 'run_word')
if not known[1] then
  return GONE
end
if known[2] == ARGV[1] then
  return tonumber(known[1])
end
call('HSET', meta, 'run_word', ARGV[1], 'offset', ARGV[2], 'latest', ARGV[3], 'boot', ARGV[4], 'boot_offset', ARGV[5])
return call('HINCRBY', meta, 'run', 1)
