#!lua flags=allow-oom
-- Replaces what was known of origins. A server without room takes small copies alone, as nearly all are: whoever has
-- many origins queued must not fill the machine with large ones.
--
-- KEYS     headers of the slots of these origins
-- ARGV     slot (by its place in KEYS), origin, copy, and so on
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

local SMALL_BYTES = 4096
local is_full

local function has_room()
  if is_full == nil then
    local memory = call('INFO', 'memory')
    local used, most = string.match(memory, 'used_memory:(%d+)'), string.match(memory, 'maxmemory:(%d+)')
    is_full = used and most and tonumber(most) > 0 and tonumber(used) >= tonumber(most)
  end
  return not is_full
end

for i = 1, #ARGV, 3 do
  if #ARGV[i + 2] <= SMALL_BYTES or has_room() then
    call('HSET', slots[tonumber(ARGV[i])].prefix .. 'robots', ARGV[i + 1], ARGV[i + 2])
  end
end
