-- What the scripts share; it is put in front of each of them, behind its first line.
--
-- KEYS are the headers of the slots that a call is about, `{g:<crawl>:<slot>}:h`. All other keys of a slot begin as its
-- header does, and a script builds them from it:
--
--   h             string   the header: seven numbers, see HEADER
--   w             hash     who owns the slot: owner, until
--   c             hash     counters: "o <reason>" of finished URLs, "r <reason>" of those that went back
--   sites         hash     name -> record, see SITE
--   due           zset     sites with something queued and no lease, by their not_before
--   busy          set      sites with a lease
--   q:<site>      list     its queue: items of some entries each, and references to blocks that were moved out
--   v:<site>      hash     fingerprint of a path -> how many of its variants were admitted
--   s:<n>:<site>  set      its seen fingerprints, all integers; a site with many has several sets, which are split one
--                          by one (linear hashing)
--   leased        hash     number of a lease -> site and entry, see held()
--   segs          set      segments in which something of this slot is spooled
--   g:<segment>   hash     number -> "P" (a page) or "O", then what `leased` had
--   robots        hash     origin -> copy
--   long          set      sites whose queue has become long
--   blocks        hash     number of a block -> "B" and its entries, or "F" and where they are in a file
--   unmoved       set      of these, those that are still here
--   files         hash     file -> how many blocks of it are wanted
--
-- What leasing would have to gather from all slots stands in keys of its own, `{g:<crawl>:all}:`
--
--   due           zset     slots with something in their `due`, by the first time there
--   taken         string   how many URLs are pages, or may become some: pages, leased, spooled as pages
--   calls         hash     id of a call of lease -> of each slot that gave something: its number, the first and the last
--                          serial
--
-- Numbers are only given to commands as numbers, which writes all their digits; `..` and tostring write 14.

local call, pack, unpacked, sub, byte = redis.call, struct.pack, struct.unpack, string.sub, string.byte

local HEADER = '<ddddddd'
local EPOCH, SERIAL, ADMITTED, SPOOLED, SPOOLED_PAGES, RECEIVED_BYTES, BLOCKS = 1, 2, 3, 4, 5, 6, 7

-- Then the reason, if it was given up. OFFSET bytes of the first item of its queue are taken already, MOVED of its URLs
-- stand in blocks outside of it, and SETS is how many sets its seen fingerprints are in.
local SITE, SITE_BYTES = '<dddddI4I4I4I4I4I4B', 65
local NOT_BEFORE, NOT_BEFORE_LEASE, LAST_REQUEST_AT, CRAWL_DELAY, LEASE, FAILURES, QUEUED, ALL, OFFSET, MOVED, SETS,
  SEEDED, DROPPED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
-- What a script notes of it besides: how it stood when it was loaded, whether it is to be written, and as what.
local NAME, WAS_BUSY, WAS_DUE, WAS_NOT_BEFORE, IS_CHANGED, PACKED = 14, 15, 16, 17, 18, 19

-- Arguments of one command: Lua's stack has room for some 8,000.
local PORTION = 4000

-- An entry begins with the length of its URL, which is never this; where an item of a queue does, it is a reference.
local REFERENCE = '\255\255\255\255'
local ENTRY_HEADER_BYTES = 23
-- An item of a queue has several entries, up to so many bytes. Larger ones are dearer to read for one URL, smaller ones
-- are more of them.
local ITEM_BYTES = 2000

local GONE = {err = 'GONE the frontier is not here'}

-- A slot, from the key of its header and what stands there.
local function slot_of(key, raw)
  return {key = key, prefix = sub(key, 1, -2), header = {unpacked(HEADER, raw)}, sites = {}, touched = {}}
end

-- The slots of KEYS; nil if one of them is gone. Comes before anything is written.
local function open_slots()
  if #KEYS == 0 then
    return {}
  end
  local slots = {}
  for i, raw in ipairs(call('MGET', unpack(KEYS))) do
    if not raw then
      return nil
    end
    slots[i] = slot_of(KEYS[i], raw)
  end
  return slots
end

local function in_portions(command, key, list)
  local n = #list
  if n == 0 then
    return
  end
  for first = 1, n, PORTION do
    call(command, key, unpack(list, first, math.min(n, first + PORTION - 1)))
  end
end

-- The stem of all keys of the crawl.
local function stem_of(key)
  return string.match(key, '^(.*:)%d+}:h$')
end

-- What changes in the keys of all slots.
local firsts, unwaiting, taken = {}, {}, 0

-- How many URLs were finished with a reason.
local function count_outcomes(slot, reason, number)
  call('HINCRBY', slot.prefix .. 'c', 'o ' .. reason, number)
  if reason == 'page' then
    taken = taken + number
  end
end

-- Writes what is kept of slots as a whole; after `write_sites` of each.
local function write_slots(slots)
  local changed, n = {}, 0
  for _, slot in ipairs(slots) do
    if slot.is_changed then
      local h = slot.header
      changed[n + 1] = slot.key
      changed[n + 2] = pack(HEADER, h[1], h[2], h[3], h[4], h[5], h[6], h[7])
      n = n + 2
    end
  end
  if n > 0 then
    call('MSET', unpack(changed))
  end
  if #firsts > 0 or #unwaiting > 0 or taken ~= 0 then
    local prefix = stem_of(KEYS[1]) .. 'all}:'
    in_portions('ZREM', prefix .. 'due', unwaiting)
    in_portions('ZADD', prefix .. 'due', firsts)
    if taken ~= 0 then
      call('INCRBY', prefix .. 'taken', taken)
    end
  end
end

-- Records of sites, by name, each loaded once. Those that are not known are made if `makes`, else left out.
-- Whoever changes one sets its IS_CHANGED.
local function load_sites(slot, names, makes)
  local sites, touched = slot.sites, slot.touched
  local key = slot.prefix .. 'sites'
  for first = 1, #names, PORTION do
    local last = math.min(#names, first + PORTION - 1)
    for i, raw in ipairs(call('HMGET', key, unpack(names, first, last))) do
      local name = names[first + i - 1]
      if not sites[name] then
        local site
        if raw then
          local not_before, before_lease, last_request_at, crawl_delay, lease, failures, queued, all, offset, moved,
            sets, seeded = unpacked(SITE, raw)
          -- In one go: a table that grows is dear.
          site = {
            not_before, before_lease, last_request_at, crawl_delay, lease, failures, queued, all, offset, moved, sets,
            seeded, sub(raw, SITE_BYTES + 1), name, lease > 0, queued > 0 and lease == 0, not_before, false, false,
          }
        elseif makes then
          site = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, '', name, false, false, 0, false, false}
        end
        if site then
          sites[name] = site
          touched[#touched + 1] = site
        end
      end
    end
  end
  return sites
end

local function write_sites(slot)
  local records, due, undue, busy, free = {}, {}, {}, {}, {}
  for _, site in ipairs(slot.touched) do
    if site[IS_CHANGED] then
      local name = site[NAME]
      local packed = pack(
        SITE, site[1], site[2], site[3], site[4], site[5], site[6], site[7], site[8], site[9], site[10], site[11],
        site[12]
      ) .. site[DROPPED]
      site[PACKED] = packed
      records[#records + 1] = name
      records[#records + 1] = packed
      local is_busy = site[LEASE] > 0
      if is_busy ~= site[WAS_BUSY] then
        local list = is_busy and busy or free
        list[#list + 1] = name
      end
      if site[QUEUED] > 0 and not is_busy then
        if not site[WAS_DUE] or site[WAS_NOT_BEFORE] ~= site[NOT_BEFORE] then
          due[#due + 1] = site[NOT_BEFORE]
          due[#due + 1] = name
        end
      elseif site[WAS_DUE] then
        undue[#undue + 1] = name
      end
    end
  end
  in_portions('ZREM', slot.prefix .. 'due', undue)
  in_portions('SREM', slot.prefix .. 'busy', free)
  in_portions('HSET', slot.prefix .. 'sites', records)
  in_portions('ZADD', slot.prefix .. 'due', due)
  in_portions('SADD', slot.prefix .. 'busy', busy)
  if #due > 0 or #undue > 0 then
    local number = string.match(slot.prefix, '(%d+)}:$')
    local first = call('ZRANGE', slot.prefix .. 'due', 0, 0, 'WITHSCORES')
    if first[2] then
      firsts[#firsts + 1], firsts[#firsts + 2] = first[2], number
    else
      unwaiting[#unwaiting + 1] = number
    end
  end
end

-- A leased URL as it is kept, and what it is made of.
local function held(name, entry)
  return pack('<I4', #name) .. name .. entry
end

local function site_and_entry(value, begin)
  local length = unpacked('<I4', value, begin)
  return sub(value, begin + 4, begin + 3 + length), sub(value, begin + 4 + length)
end

-- Where an entry has its attempt and its count of returns, both of two bytes.
local ATTEMPT, RETURNED = 19, 21

local function one_more(entry, where)
  local number = math.min(unpacked('<I2', entry, where) + 1, 65535)
  return sub(entry, 1, where - 1) .. pack('<I2', number) .. sub(entry, where + 2)
end

-- What is put in front of a queue stands before the rest of its first item.
local function put_back(slot, site, entry)
  local key = slot.prefix .. 'q:' .. site[NAME]
  if site[OFFSET] > 0 then
    call('LPUSH', key, sub(call('LPOP', key), site[OFFSET] + 1))
    site[OFFSET] = 0
  end
  call('LPUSH', key, entry)
end

-- A site that was given up takes nothing back: what would wait there is finished with it.
local function requeue(slot, site, entry, at_head)
  if site[DROPPED] ~= '' then
    count_outcomes(slot, site[DROPPED], 1)
    return
  end
  if at_head then
    put_back(slot, site, entry)
  else
    call('RPUSH', slot.prefix .. 'q:' .. site[NAME], entry)
  end
  site[QUEUED] = site[QUEUED] + 1
  site[IS_CHANGED] = true
end

-- The first URL of a queue, which is not empty and begins with no reference. It is taken out.
local function take(slot, site)
  local key = slot.prefix .. 'q:' .. site[NAME]
  local begin = site[OFFSET] + 1
  site[QUEUED] = site[QUEUED] - 1
  site[IS_CHANGED] = true
  if site[QUEUED] == 0 then
    site[OFFSET] = 0
    return sub(call('LPOP', key), begin)
  end
  local item = call('LINDEX', key, 0)
  local last = begin + ENTRY_HEADER_BYTES + unpacked('<I4', item, begin) - 1
  if last == #item then
    call('LPOP', key)
    site[OFFSET] = 0
    return begin == 1 and item or sub(item, begin)
  end
  site[OFFSET] = last
  return sub(item, begin, last)
end

-- The largest power of two that is not more than this number.
local function half_of(count)
  local half = 1
  while half * 2 <= count do
    half = half * 2
  end
  return half
end

-- The low bits of a fingerprint, from its decimals. Of up to 3 low bits the last 3 digits tell everything, because 1000
-- is a multiple of 8; they are read without making a string, which is what costs. Lua's numbers have 53 bits, so of up
-- to 15 the last 15 digits are taken likewise. More are computed in two parts.
local function low_bits(text, modulus)
  local n = #text
  local rest
  if modulus <= 8 and n > 3 then
    local hundreds, tens, ones = byte(text, n - 2, n)
    rest = (100 * hundreds + 10 * tens + ones - 5328) % modulus  -- the digit 0 is 48
  elseif n <= 15 then
    return tonumber(text) % modulus
  elseif modulus <= 32768 then
    rest = tonumber(sub(text, n - 14)) % modulus
  else
    local first = byte(text) == 45 and 2 or 1
    rest = (tonumber(sub(text, first, n - 9)) % modulus * (1e9 % modulus) + tonumber(sub(text, n - 8))) % modulus
  end
  return byte(text) == 45 and (modulus - rest) % modulus or rest
end

-- Of so many sets, `half` the largest power of two in that, the one that has this fingerprint if it was seen.
local function set_of(fingerprint, sets, half)
  local number = low_bits(fingerprint, 2 * half)
  return number < sets and number or number - half
end

local function seen_key(slot, site, number)
  return slot.prefix .. 's:' .. number .. ':' .. site[NAME]
end

-- A field of one of these hashes goes; at 0 it is none.
local function count_down(key, field)
  if call('HINCRBY', key, field, -1) <= 0 then
    call('HDEL', key, field)
  end
end

-- A reference in a queue: the number of its block, and how many entries that has.
local function block_of(item)
  if sub(item, 1, 4) == REFERENCE then
    return unpacked('<dI4', item, 5)
  end
end

-- The block is not wanted any more.
local function forget_block(slot, number)
  local block = call('HGET', slot.prefix .. 'blocks', number)
  if not block then
    return
  end
  call('HDEL', slot.prefix .. 'blocks', number)
  if sub(block, 1, 1) == 'B' then
    call('SREM', slot.prefix .. 'unmoved', number)
  else
    count_down(slot.prefix .. 'files', sub(block, 18))
  end
end

-- Where each entry of a block begins, and where the one behind the last would.
local function begins_of(entries)
  local begins, n, at = {}, 0, 1
  while at <= #entries do
    n = n + 1
    begins[n] = at
    at = at + ENTRY_HEADER_BYTES + unpacked('<I4', entries, at)
  end
  begins[n + 1] = at
  return begins, n
end

-- Entries one behind the other, from the first to the last of `begins`, as items of a queue.
local function add_items(items, blob, begins, first, last)
  local begin = first
  for i = first, last do
    if i == last or begins[i + 2] - begins[begin] > ITEM_BYTES then
      items[#items + 1] = sub(blob, begins[begin], begins[i + 1] - 1)
      begin = i + 1
    end
  end
end

-- The entries of a block take the place of the reference at the head of a queue.
local function put_in_place(slot, site, number, entries)
  local begins, n = begins_of(entries)
  local items, reversed = {}, {}
  add_items(items, entries, begins, 1, n)
  for i = #items, 1, -1 do
    reversed[#reversed + 1] = items[i]
  end
  local key = slot.prefix .. 'q:' .. site[NAME]
  call('LPOP', key)
  in_portions('LPUSH', key, reversed)
  forget_block(slot, number)
  site[MOVED] = site[MOVED] - n
  site[IS_CHANGED] = true
end
