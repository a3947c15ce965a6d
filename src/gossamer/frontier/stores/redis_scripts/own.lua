#!lua flags=allow-oom
-- Takes or keeps slots, and takes back what their former owners held.
--
-- KEYS     headers of the slots that are wanted
-- ARGV[1]  msgpack: owner, now, until, delay
-- Answers  the epoch of each, or -1 for those of another owner

local slots = open_slots()
if not slots then
  return GONE
end

local owner, now, until_time, delay = unpack(cmsgpack.unpack(ARGV[1]), 1, 4)

-- URLs, and sites, of which some may have spooled their URL already.
local function take_back(slot)
  local key = slot.prefix .. 'leased'
  local fields = call('HGETALL', key)
  local busy = call('SMEMBERS', slot.prefix .. 'busy')
  local leases, names = {}, {}
  for j = 1, #fields, 2 do
    local name, entry = site_and_entry(fields[j + 1], 1)
    leases[#leases + 1] = {tonumber(fields[j]), name, entry}
    names[#names + 1] = name
  end
  for _, name in ipairs(busy) do
    names[#names + 1] = name
  end
  if #names == 0 then
    return
  end
  local sites = load_sites(slot, names)
  call('UNLINK', key)
  taken = taken - #leases
  -- The one that was taken first stands first again.
  table.sort(leases, function(one, other) return one[1] > other[1] end)
  for _, lease in ipairs(leases) do
    requeue(slot, sites[lease[2]], one_more(lease[3], RETURNED), true)
  end
  for _, site in ipairs(slot.touched) do
    site[LEASE] = 0
    site[NOT_BEFORE] = math.max(site[NOT_BEFORE], now + math.max(delay, site[CRAWL_DELAY]))
    site[LAST_REQUEST_AT] = math.max(site[LAST_REQUEST_AT], now)
    site[IS_CHANGED] = true
  end
  write_sites(slot)
end

local epochs = {}
for i, slot in ipairs(slots) do
  local key = slot.prefix .. 'w'
  local holder, held_until = unpack(call('HMGET', key, 'owner', 'until'), 1, 2)
  if holder and holder ~= owner and tonumber(held_until) > now then
    epochs[i] = -1
  else
    if holder ~= owner then
      slot.header[EPOCH] = slot.header[EPOCH] + 1
      slot.is_changed = true
      take_back(slot)
    end
    call('HSET', key, 'owner', owner, 'until', until_time)
    epochs[i] = slot.header[EPOCH]
  end
end
write_slots(slots)
return epochs
