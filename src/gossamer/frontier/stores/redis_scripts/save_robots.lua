#!lua flags=allow-oom
-- Replaces what was known of origins.
--
-- KEYS     headers of the slots of these origins
-- ARGV     slot (by its place in KEYS), origin, copy, and so on
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

for i = 1, #ARGV, 3 do
  call('HSET', slots[tonumber(ARGV[i])].prefix .. 'robots', ARGV[i + 1], ARGV[i + 2])
end
