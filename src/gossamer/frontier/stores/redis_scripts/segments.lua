#!lua flags=no-writes
-- In which segments something is spooled.
--
-- KEYS     headers of all slots
-- Answers  segment, number of URLs, and so on; a segment may come once for each slot

local slots = open_slots()
if not slots then
  return GONE
end

local answer = {}
for _, slot in ipairs(slots) do
  for _, segment in ipairs(call('SMEMBERS', slot.prefix .. 'segs')) do
    answer[#answer + 1] = segment
    answer[#answer + 1] = call('HLEN', slot.prefix .. 'g:' .. segment)
  end
end
return answer
