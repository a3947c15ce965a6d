#!lua flags=allow-oom
-- What a call of lease was given and is held no more is of no use to the same call.
--
-- KEYS     headers of all slots
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

local key = stem_of(KEYS[1]) .. 'all}:calls'
local calls = call('HGETALL', key)
local held, gone = {}, {}
if #calls > 0 then
  for i, slot in ipairs(slots) do
    for _, number in ipairs(call('HKEYS', slot.prefix .. 'leased')) do
      held[math.floor(tonumber(number) / #slots) * #slots + i - 1] = true
    end
  end
end
for i = 1, #calls, 2 do
  local given, is_held = calls[i + 1], false
  for at = 1, #given, 24 do
    local number, first, last = unpacked('<ddd', given, at)
    for serial = first, last do
      is_held = is_held or held[serial * #slots + number]
    end
  end
  if not is_held then
    gone[#gone + 1] = calls[i]
  end
end
in_portions('HDEL', key, gone)
