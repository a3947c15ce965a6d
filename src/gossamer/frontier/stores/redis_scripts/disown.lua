#!lua flags=allow-oom
-- Frees the slots of an owner. What it holds goes back when they are taken again.
--
-- KEYS     headers of all slots
-- ARGV[1]  the owner
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

for _, slot in ipairs(slots) do
  if call('HGET', slot.prefix .. 'w', 'owner') == ARGV[1] then
    call('HDEL', slot.prefix .. 'w', 'owner')
  end
end
