#!lua flags=allow-oom
-- Hands out one URL each of sites that are due, or what the same call was given before.
--
-- KEYS     headers of the slots that the caller owns
-- ARGV[1]  msgpack: id of the call, most leases, now, delay, page budget or 0, number of all slots,
--          the numbers of the slots of KEYS, their epochs
-- Answers  [when the next site is due or "",
--           blocks that stand in a file and are needed first: slot (by its place in KEYS), site, block, where,
--           leases: number, slot (by its place in KEYS), site, its record, entry]
--          If blocks are needed, nothing is leased: the caller puts them in place and asks again.

local slots = open_slots()
if not slots then
  return GONE
end

local given = cmsgpack.unpack(ARGV[1])
local call_id, limit, now, delay, max_pages, all_slots, numbers, epochs = unpack(given, 1, 8)

local current = {}
for i, slot in ipairs(slots) do
  slot.place, slot.number = i, numbers[i]
  if slot.header[EPOCH] == epochs[i] then
    current[#current + 1] = slot
  end
end

-- The one thing that needs all slots: how many more URLs may be on their way to becoming pages.
local budget = math.huge
if max_pages > 0 and #slots > 0 then
  budget = max_pages
  local stem = string.match(slots[1].prefix, '^(.*:)%d+}:$')
  for i = 0, all_slots - 1 do
    local prefix = stem .. i .. '}:'
    local raw = call('GET', prefix .. 'h')
    if not raw then
      return GONE
    end
    local header = {unpacked(HEADER, raw)}
    budget = budget - header[SPOOLED_PAGES] - call('HLEN', prefix .. 'leased')
      - (tonumber(call('HGET', prefix .. 'c', 'o page')) or 0)
  end
  budget = math.max(0, budget)
end

local leases, n = {}, 0
local function answer(number, slot, name, record, entry)
  leases[n + 1], leases[n + 2], leases[n + 3], leases[n + 4], leases[n + 5] = number, slot.place, name, record, entry
  n = n + 5
end

-- What an earlier call with this id was given, as far as it is still held.
for _, slot in ipairs(slots) do
  local range = call('HGET', slot.prefix .. 'calls', call_id)
  if range then
    local first, last = unpacked('<dd', range)
    for serial = first, last do
      local number = serial * all_slots + slot.number
      local value = call('HGET', slot.prefix .. 'leased', number)
      if value then
        local name, entry = site_and_entry(value, 1)
        answer(number, slot, name, call('HGET', slot.prefix .. 'sites', name), entry)
      end
    end
  end
end

local needed = {}
if n == 0 then
  local left = math.min(limit, budget)
  -- First all are chosen and looked at: if one needs a block of a file, nothing was changed yet.
  for _, slot in ipairs(current) do
    if left <= 0 then
      break
    end
    slot.chosen = call('ZRANGEBYSCORE', slot.prefix .. 'due', '-inf', now, 'LIMIT', 0, left)
    left = left - #slot.chosen
    load_sites(slot, slot.chosen)
    for _, name in ipairs(slot.chosen) do
      local site = slot.sites[name]
      if site[MOVED] > 0 then
        local block = block_of(call('LINDEX', slot.prefix .. 'q:' .. name, 0))
        if block then
          local where = call('HGET', slot.prefix .. 'blocks', block)
          if sub(where, 1, 1) == 'B' then
            put_in_place(slot, site, block, sub(where, 2))
          else
            for _, value in ipairs({slot.place, name, block, sub(where, 2)}) do
              needed[#needed + 1] = value
            end
          end
        end
      end
    end
  end
  if #needed > 0 then
    for _, slot in ipairs(current) do
      write_sites(slot)  -- of blocks that were at hand
    end
    return {'', needed, {}}
  end
  for _, slot in ipairs(current) do
    if slot.chosen and #slot.chosen > 0 then
      local header, kept, entries = slot.header, {}, {}
      local first = header[SERIAL] + 1
      for i, name in ipairs(slot.chosen) do
        local site = slot.sites[name]
        local entry = take(slot, site)
        header[SERIAL] = header[SERIAL] + 1
        local number = header[SERIAL] * all_slots + slot.number
        site[LEASE] = number
        site[NOT_BEFORE_LEASE] = site[NOT_BEFORE]
        site[NOT_BEFORE] = now + math.max(delay, site[CRAWL_DELAY])
        entries[i] = entry
        kept[2 * i - 1] = number
        kept[2 * i] = held(name, entry)
      end
      write_sites(slot)
      in_portions('HSET', slot.prefix .. 'leased', kept)
      call('HSET', slot.prefix .. 'calls', call_id, pack('<dd', first, header[SERIAL]))
      slot.is_changed = true
      for i, name in ipairs(slot.chosen) do
        local site = slot.sites[name]
        answer(site[LEASE], slot, name, site[PACKED], entries[i])
      end
      budget = budget - #slot.chosen
    end
  end
  write_headers(slots)
end

local next_due_at = ''
if budget > 0 then
  local least
  for _, slot in ipairs(current) do
    local first = call('ZRANGE', slot.prefix .. 'due', 0, 0, 'WITHSCORES')
    if first[2] then
      local due_at = tonumber(first[2])
      if not least or due_at < least then
        least, next_due_at = due_at, first[2]
      end
    end
  end
end
return {next_due_at, {}, leases}
