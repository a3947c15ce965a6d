#!lua flags=allow-oom
-- A segment is lost: what was spooled in it goes back to the head of its queues, returned once more.
--
-- KEYS     headers of slots
-- ARGV[1]  the segment
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

for _, slot in ipairs(slots) do
  local key = slot.prefix .. 'g:' .. ARGV[1]
  local fields = call('HGETALL', key)
  if #fields > 0 then
    local spooled, names = {}, {}
    local pages = 0
    for i = 1, #fields, 2 do
      local name, entry = site_and_entry(fields[i + 1], 2)
      spooled[#spooled + 1] = {tonumber(fields[i]), name, entry}
      names[#names + 1] = name
      if byte(fields[i + 1]) == 80 then
        pages = pages + 1
      end
    end
    call('UNLINK', key)
    call('SREM', slot.prefix .. 'segs', ARGV[1])
    local sites = load_sites(slot, names)
    -- The one that was taken first stands first again.
    table.sort(spooled, function(one, other) return one[1] > other[1] end)
    for _, lease in ipairs(spooled) do
      requeue(slot, sites[lease[2]], one_more(lease[3], RETURNED), true)
    end
    write_sites(slot)
    slot.header[SPOOLED] = slot.header[SPOOLED] - #spooled
    slot.header[SPOOLED_PAGES] = slot.header[SPOOLED_PAGES] - pages
    taken = taken - pages
    slot.is_changed = true
  end
end
write_slots(slots)
