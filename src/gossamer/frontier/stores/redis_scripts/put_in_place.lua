#!lua flags=allow-oom
-- The entries of a block, read from its file, take the place of the reference at the head of a queue.
--
-- KEYS[1]  header of the slot
-- ARGV     site, number of the block, its entries
-- Answers  nothing; if the reference is not at the head any more, nothing changes

local slots = open_slots()
if not slots then
  return GONE
end

local slot, name, number = slots[1], ARGV[1], tonumber(ARGV[2])
local head = call('LINDEX', slot.prefix .. 'q:' .. name, 0)
if head and block_of(head) == number then
  put_in_place(slot, load_sites(slot, {name})[name], number, ARGV[3])
  write_sites(slot)
  write_slots(slots)
end
