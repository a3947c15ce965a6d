#!lua flags=allow-oom
-- Brings back the clocks of sites that lie absurdly far ahead; some of the sites of one slot with each call.
--
-- KEYS[1]  header of the slot
-- ARGV     the latest time that is allowed, cursor, how many sites
-- Answers  the next cursor; "0" at the end

local slots = open_slots()
if not slots then
  return GONE
end

local slot, latest = slots[1], tonumber(ARGV[1])
local scanned = call('HSCAN', slot.prefix .. 'sites', ARGV[2], 'COUNT', ARGV[3])
local names = {}
for i = 1, #scanned[2], 2 do
  local not_before, before_lease = unpacked('<dd', scanned[2][i + 1])
  if not_before > latest or before_lease > latest then
    names[#names + 1] = scanned[2][i]
  end
end
if #names > 0 then
  load_sites(slot, names)
  for _, site in ipairs(slot.touched) do
    site[NOT_BEFORE] = math.min(site[NOT_BEFORE], latest)
    site[NOT_BEFORE_LEASE] = math.min(site[NOT_BEFORE_LEASE], latest)
    site[IS_CHANGED] = true
  end
  write_sites(slot)
  write_slots(slots)
end
return scanned[1]
