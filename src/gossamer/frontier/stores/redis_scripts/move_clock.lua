#!lua flags=allow-oom
-- Moves the offset of the store's clock, unless somebody else has.
--
-- KEYS     `g:<crawl>:meta`
-- ARGV     the offset as it was read, the one that it is to be
-- Answers  nothing

local offset = call('HGET', KEYS[1], 'offset')
if not offset then
  return GONE
end
if offset == ARGV[1] then
  call('HSET', KEYS[1], 'offset', ARGV[2])
end
