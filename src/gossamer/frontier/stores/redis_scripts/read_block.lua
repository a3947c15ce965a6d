#!lua flags=no-writes
-- The entries of a block that is not in a file.
--
-- KEYS[1]  header of the slot
-- ARGV[1]  number of the block
-- Answers  its entries, one behind the other; nothing if it is not there, or in a file

local slots = open_slots()
if not slots then
  return GONE
end

local block = call('HGET', slots[1].prefix .. 'blocks', ARGV[1])
if not block or sub(block, 1, 1) ~= 'B' then
  return false
end
return sub(block, 2)
