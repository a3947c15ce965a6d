#!lua flags=no-writes
-- What is spooled in one segment.
--
-- KEYS     headers of all slots
-- ARGV[1]  the segment
-- Answers  the numbers of the leases

local slots = open_slots()
if not slots then
  return GONE
end

local answer = {}
for _, slot in ipairs(slots) do
  for _, number in ipairs(call('HKEYS', slot.prefix .. 'g:' .. ARGV[1])) do
    answer[#answer + 1] = number
  end
end
return answer
