#!lua flags=no-writes
-- What is known of origins.
--
-- KEYS     headers of the slots of these origins
-- ARGV[1]  msgpack, for each slot: its origins
-- Answers  the copies in the same order; nothing for those that are not known

local slots = open_slots()
if not slots then
  return GONE
end

local answer, n = {}, 0
for i, origins in ipairs(cmsgpack.unpack(ARGV[1])) do
  for first = 1, #origins, PORTION do
    local last = math.min(#origins, first + PORTION - 1)
    for _, copy in ipairs(call('HMGET', slots[i].prefix .. 'robots', unpack(origins, first, last))) do
      n = n + 1
      answer[n] = copy
    end
  end
end
return answer
