#!lua flags=no-writes
-- What is known of sites.
--
-- KEYS     headers of the slots of these sites
-- ARGV[1]  msgpack, for each slot: names of sites
-- Answers  for each slot: [epoch, owner or "", until or "", records in the same order, nothing for those not known]

local slots = open_slots()
if not slots then
  return GONE
end

local answer = {}
for i, names in ipairs(cmsgpack.unpack(ARGV[1])) do
  local slot = slots[i]
  local owner = call('HMGET', slot.prefix .. 'w', 'owner', 'until')
  answer[i] = {
    slot.header[EPOCH], owner[1] or '', owner[2] or '', call('HMGET', slot.prefix .. 'sites', unpack(names)),
  }
end
return answer
