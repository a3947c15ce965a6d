#!lua flags=allow-oom
-- Frees the sites of leases, with their clocks.
--
-- KEYS     headers of the slots of these leases
-- ARGV[1]  msgpack, for each slot: [site, number, was it requested?, not_before, last_request_at, crawl_delay, failures,
--          reason why it is given up or ""] for each lease
-- Answers  nothing

local slots = open_slots()
if not slots then
  return GONE
end

-- What is queued is finished, with this reason.
local function give_up(slot, site, reason)
  local key = slot.prefix .. 'q:' .. site[NAME]
  if site[MOVED] > 0 then
    for first = 0, call('LLEN', key) - 1, PORTION do
      for _, item in ipairs(call('LRANGE', key, first, first + PORTION - 1)) do
        local block = block_of(item)
        if block then
          forget_block(slot, block)
        end
      end
    end
    site[MOVED] = 0
  end
  call('UNLINK', key)
  call('UNLINK', slot.prefix .. 'v:' .. site[NAME])
  if site[QUEUED] > 0 then
    count_outcomes(slot, reason, site[QUEUED])
  end
  site[QUEUED], site[OFFSET] = 0, 0
  site[DROPPED] = reason
end

for i, releases in ipairs(cmsgpack.unpack(ARGV[1])) do
  local slot = slots[i]
  local names = {}
  for j, release in ipairs(releases) do
    names[j] = release[1]
  end
  local sites = load_sites(slot, names)
  for _, release in ipairs(releases) do
    local site = sites[release[1]]
    if site and site[LEASE] == release[2] then
      local stood_at = release[3] and site[NOT_BEFORE] or site[NOT_BEFORE_LEASE]
      site[LEASE] = 0
      site[NOT_BEFORE] = math.max(stood_at, release[4])
      site[LAST_REQUEST_AT], site[CRAWL_DELAY], site[FAILURES] = release[5], release[6], release[7]
      site[IS_CHANGED] = true
      if release[8] ~= '' then
        give_up(slot, site, release[8])
      end
    end
  end
  write_sites(slot)
end
write_slots(slots)
