#!lua flags=allow-oom
-- Spooled URLs are done with, and counted.
--
-- KEYS     headers of the slots of these URLs
-- ARGV[1]  msgpack, for each slot: segment, [number of a lease, reason, received bytes, and so on], and so on
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

for i, given in ipairs(cmsgpack.unpack(ARGV[1])) do
  local slot = slots[i]
  local outcomes = {}
  for j = 1, #given, 2 do
    local segment, finished = given[j], given[j + 1]
    local key = slot.prefix .. 'g:' .. segment
    local numbers = {}
    for k = 1, #finished, 3 do
      numbers[#numbers + 1] = finished[k]
    end
    local gone, done = {}, {}
    local pages, received = 0, 0
    for k, value in ipairs(call('HMGET', key, unpack(numbers))) do
      local number = numbers[k]
      if value and not done[number] then
        done[number] = true
        gone[#gone + 1] = number
        if byte(value) == 80 then
          pages = pages + 1
        end
        local reason = finished[3 * k - 1]
        outcomes[reason] = (outcomes[reason] or 0) + 1
        received = received + finished[3 * k]
      end
    end
    if #gone > 0 then
      in_portions('HDEL', key, gone)
      if call('EXISTS', key) == 0 then
        call('SREM', slot.prefix .. 'segs', segment)
      end
      local header = slot.header
      header[SPOOLED] = header[SPOOLED] - #gone
      header[SPOOLED_PAGES] = header[SPOOLED_PAGES] - pages
      header[RECEIVED_BYTES] = header[RECEIVED_BYTES] + received
      taken = taken - pages  -- those that are pages in the end are counted again, as such
      slot.is_changed = true
    end
  end
  for reason, number in pairs(outcomes) do
    count_outcomes(slot, reason, number)
  end
end
write_slots(slots)
