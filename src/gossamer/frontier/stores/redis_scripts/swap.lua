#!lua flags=allow-oom
-- Blocks stand in a file now: each that is still wanted becomes a pointer to there.
--
-- KEYS[1]  header of the slot
-- ARGV     epoch of the caller, file, then for each block: its number, where it begins in the file, its bytes there
-- Answers  how many were swapped; none under another epoch, because the new owner may have removed the file

local slots = open_slots()
if not slots then
  return GONE
end

local slot, file, swapped = slots[1], ARGV[2], 0
if slot.header[EPOCH] ~= tonumber(ARGV[1]) then
  return 0
end
local key = slot.prefix .. 'blocks'
for i = 3, #ARGV, 3 do
  local number = ARGV[i]
  local block = call('HGET', key, number)
  if block and sub(block, 1, 1) == 'B' then
    call('HSET', key, number, 'F' .. pack('<dd', tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])) .. file)
    call('SREM', slot.prefix .. 'unmoved', number)
    swapped = swapped + 1
  end
end
if swapped > 0 then
  call('HINCRBY', slot.prefix .. 'files', file, swapped)
end
return swapped
