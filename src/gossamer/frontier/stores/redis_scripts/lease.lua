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

local given = cmsgpack.unpack(ARGV[1])
local call_id, limit, now, delay, max_pages, all_slots, numbers, epochs = unpack(given, 1, 8)
-- Slots that are looked at together for when the next site is due. Of one owner, mostly the first one tells.
local LOOKED_AT = 4
local stem = stem_of(KEYS[1])
local of_all = stem .. 'all}:'

-- By the numbers of slots: their places in KEYS, and the headers of those that the caller owns. The rest is made of the
-- few that have something to give.
local places, current = {}, {}
for i, raw in ipairs(call('MGET', unpack(KEYS))) do
  if not raw then
    return GONE
  end
  local number = numbers[i]
  places[number] = i
  if unpacked('<d', raw) == epochs[i] then
    current[number] = raw
  end
end

local budget = math.huge
if max_pages > 0 then
  budget = math.max(0, max_pages - (tonumber(call('GET', of_all .. 'taken')) or 0))
end

local leases, n = {}, 0
local function answer(number, place, name, record, entry)
  leases[n + 1], leases[n + 2], leases[n + 3], leases[n + 4], leases[n + 5] = number, place, name, record, entry
  n = n + 5
end

-- What an earlier call with this id was given, as far as it is still held.
local known = call('HGET', of_all .. 'calls', call_id)
for at = 1, known and #known or 0, 24 do
  local slot, first, last = unpacked('<ddd', known, at)
  local prefix = stem .. slot .. '}:'
  for serial = first, last do
    local number = serial * all_slots + slot
    local value = places[slot] and call('HGET', prefix .. 'leased', number)
    if value then
      local name, entry = site_and_entry(value, 1)
      answer(number, places[slot], name, call('HGET', prefix .. 'sites', name), entry)
    end
  end
end

local slots, needed = {}, {}
if n == 0 then
  local left = math.min(limit, budget)
  local is_due = {}
  for _, number in ipairs(left > 0 and call('ZRANGEBYSCORE', of_all .. 'due', '-inf', now) or {}) do
    is_due[tonumber(number)] = true
  end
  -- First all are chosen and looked at: if one needs a block of a file, nothing was changed yet.
  for place, number in ipairs(numbers) do
    if left <= 0 then
      break
    end
    if is_due[number] and current[number] then
      local slot = slot_of(KEYS[place], current[number])
      slot.place, slot.number = place, number
      slots[#slots + 1] = slot
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
              for _, value in ipairs({place, name, block, sub(where, 2)}) do
                needed[#needed + 1] = value
              end
            end
          end
        end
      end
    end
  end
  if #needed > 0 then
    for _, slot in ipairs(slots) do
      write_sites(slot)  -- of blocks that were at hand
    end
    write_slots(slots)
    return {'', needed, {}}
  end
  local noted = {}
  for _, slot in ipairs(slots) do
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
    noted[#noted + 1] = pack('<ddd', slot.number, first, header[SERIAL])
    slot.is_changed = true
    for i, name in ipairs(slot.chosen) do
      local site = slot.sites[name]
      answer(site[LEASE], slot.place, name, site[PACKED], entries[i])
    end
    taken = taken + #slot.chosen
  end
  if #noted > 0 then
    call('HSET', of_all .. 'calls', call_id, table.concat(noted))
    budget = budget - taken
    write_slots(slots)
  end
end

-- Of the slots in the order in which they are due, the first that the caller owns.
local next_due_at, at = '', 0
while budget > 0 and next_due_at == '' do
  local firsts_due = call('ZRANGE', of_all .. 'due', at, at + LOOKED_AT - 1, 'WITHSCORES')
  for i = 1, #firsts_due, 2 do
    if current[tonumber(firsts_due[i])] then
      next_due_at = firsts_due[i + 1]
      break
    end
  end
  at = at + LOOKED_AT
  if #firsts_due < 2 * LOOKED_AT then
    break
  end
end
return {next_due_at, {}, leases}
