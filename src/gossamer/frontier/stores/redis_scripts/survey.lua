#!lua flags=no-writes
-- What there is to do for the owner of slots: long queues, blocks that are to be moved to files, files in use.
--
-- KEYS     headers of slots
-- Answers  for each: [epoch, sites with a long queue, numbers of blocks that are not in a file, files]

local slots = open_slots()
if not slots then
  return GONE
end

local answer = {}
for i, slot in ipairs(slots) do
  answer[i] = {
    slot.header[EPOCH],
    call('SMEMBERS', slot.prefix .. 'long'),
    call('SMEMBERS', slot.prefix .. 'unmoved'),
    call('HKEYS', slot.prefix .. 'files'),
  }
end
return answer
