#!lua
-- Marks what was never seen as seen, and queues it.
--
-- KEYS     headers of the slots of these candidates
-- ARGV[1]  msgpack: only seeded sites?, site_queue, site_urls, path_variants, URLs of a queue that may be in memory,
--          and for each slot its groups of candidates of one site:
--          [site, fingerprints, which are seeds, which go to the head, fingerprints of paths]
--          Fingerprints are the decimals of signed 64-bit numbers. The last three are false where there are none.
-- ARGV[2]  the entries of all candidates in the same order, one behind the other
-- Answers  a byte for each, in the same order: see the letters below

local slots = open_slots()
if not slots then
  return GONE
end

local NEW, SEEN, SITE_DROPPED, SCOPE, SITE_FULL, PATH_VARIANTS, QUEUE_FULL = 78, 83, 68, 79, 70, 86, 81
-- URLs of a bucket, on the average. While the buckets are being split one after the other, those that are still to be
-- split have up to twice as many; a set of integers stays compact up to 512.
local BUCKET_URLS = 200

local given = cmsgpack.unpack(ARGV[1])
local only_seeded, site_queue, site_urls, path_variants, most_in_memory = unpack(given, 1, 5)
local blob, at = ARGV[2], 1
local answers, answered = {}, 0

-- The low bits of a fingerprint, from its decimals. Lua's numbers have 53 bits, but of up to 15 low bits the last 15
-- digits tell everything, because 10^15 is a multiple of 2^15. More are computed in two parts.
local function low_bits(text, modulus)
  local n = #text
  if n <= 15 then
    return tonumber(text) % modulus
  end
  local rest
  if modulus <= 32768 then
    rest = tonumber(sub(text, n - 14)) % modulus
  else
    local first = byte(text) == 45 and 2 or 1
    rest = (tonumber(sub(text, first, n - 9)) % modulus * (1e9 % modulus) + tonumber(sub(text, n - 8))) % modulus
  end
  return byte(text) == 45 and (modulus - rest) % modulus or rest
end

local function split(slot)
  local count = slot.header[BUCKETS]
  local half = half_of(count)
  local source = slot.prefix .. 's:' .. (count - half)
  local moved, n = {}, 0
  for _, member in ipairs(call('SMEMBERS', source)) do
    if low_bits(member, 2 * half) >= half then
      n = n + 1
      moved[n] = member
    end
  end
  if n > 0 then
    call('SADD', slot.prefix .. 's:' .. count, unpack(moved))
    call('SREM', source, unpack(moved))
  end
  slot.header[BUCKETS] = count + 1
  slot.is_changed = true
end

local function as_set(list)
  local set = {}
  for _, i in ipairs(list or {}) do
    set[i] = true
  end
  return set
end

-- How many variants of these paths there are; a path is '' where a candidate is none.
local function load_variants(key, paths, which)
  local wanted, variants = {}, {}
  for _, i in ipairs(which) do
    local path = paths[i]
    if path ~= '' and not variants[path] then
      variants[path] = 0
      wanted[#wanted + 1] = path
    end
  end
  if #wanted > 0 then
    for i, number in ipairs(call('HMGET', key, unpack(wanted))) do
      variants[wanted[i]] = tonumber(number) or 0
    end
  end
  return variants
end

local function write_variants(key, variants, grown)
  local changed = {}
  for path in pairs(grown) do
    changed[#changed + 1] = path
    changed[#changed + 1] = variants[path]
  end
  in_portions('HSET', key, changed)
end

-- An open site with room for all of them: which are new. nil, and nothing is marked, if a path would get too many.
local function add_unseen(site, fingerprints, buckets, paths, variants_key)
  local new, n = {}, 0
  for i = 1, #fingerprints do
    if call('SADD', buckets[i], fingerprints[i]) == 1 then
      n = n + 1
      new[n] = i
    end
  end
  if paths and n > 0 then
    local variants = load_variants(variants_key, paths, new)
    local grown, most = {}, 0
    for _, i in ipairs(new) do
      local path = paths[i]
      if path ~= '' then
        variants[path] = variants[path] + 1
        grown[path] = true
        most = math.max(most, variants[path])
      end
    end
    if most > path_variants then
      for _, i in ipairs(new) do
        call('SREM', buckets[i], fingerprints[i])
      end
      return nil
    end
    write_variants(variants_key, variants, grown)
  end
  return new
end

-- The same where some may be refused, one by one, in order; `answers` gets what is not new.
local function judge(site, fingerprints, buckets, seeds, paths, variants_key)
  local every = {}
  for i = 1, #fingerprints do
    every[i] = i
  end
  local variants = paths and load_variants(variants_key, paths, every)
  local grown, new, n = {}, {}, 0
  for i = 1, #fingerprints do
    local path = paths and paths[i] or ''
    local is_seed = seeds[i]
    if is_seed and site[SEEDED] == 0 then
      site[SEEDED] = 1
      site[IS_CHANGED] = true
    end
    local answer
    if call('SISMEMBER', buckets[i], fingerprints[i]) == 1 then
      answer = SEEN
    elseif site[DROPPED] ~= '' then
      answer = SITE_DROPPED
    elseif only_seeded and site[SEEDED] == 0 then
      answer = SCOPE
    elseif site[ALL] + n >= site_urls and not is_seed then
      answer = SITE_FULL
    elseif path ~= '' and variants[path] >= path_variants and not is_seed then
      answer = PATH_VARIANTS
    elseif site[QUEUED] + n >= site_queue then
      answer = QUEUE_FULL
    else
      call('SADD', buckets[i], fingerprints[i])
      answer = NEW
      n = n + 1
      new[n] = i
      if path ~= '' then
        variants[path] = variants[path] + 1
        grown[path] = true
      end
    end
    answers[answered + i] = answer
  end
  if paths then
    write_variants(variants_key, variants, grown)
  end
  return new
end

for s, slot in ipairs(slots) do
  local groups = given[6][s]
  local names = {}
  for i, group in ipairs(groups) do
    names[i] = group[1]
  end
  local sites = load_sites(slot, names, true)
  -- Before anything is added: a set that was too large once stays large. If all were seen, a few are split early.
  local offered = 0
  for _, group in ipairs(groups) do
    offered = offered + #group[2]
  end
  while slot.header[ADMITTED] + offered > slot.header[BUCKETS] * BUCKET_URLS do
    split(slot)
  end
  local count = slot.header[BUCKETS]
  local half = half_of(count)
  local double, prefix = 2 * half, slot.prefix .. 's:'
  local admitted = 0
  for _, group in ipairs(groups) do
    local name, fingerprints, seeds, heads, paths = unpack(group, 1, 5)
    local site = sites[name]
    local n = #fingerprints
    local begins, buckets = {}, {}
    for i = 1, n do
      local length, low = unpacked('<I4I4', blob, at)
      local bucket = low % double
      if bucket >= count then
        bucket = bucket - half
      end
      buckets[i] = prefix .. bucket
      begins[i] = at
      answers[answered + i] = SEEN
      at = at + ENTRY_HEADER_BYTES + length
    end
    begins[n + 1] = at
    local new
    if site[DROPPED] == '' and (not only_seeded or site[SEEDED] == 1)
      and site[QUEUED] + n <= site_queue and site[ALL] + n <= site_urls then
      if seeds and site[SEEDED] == 0 then
        site[SEEDED] = 1
        site[IS_CHANGED] = true
      end
      new = add_unseen(site, fingerprints, buckets, paths, slot.prefix .. 'v:' .. name)
    end
    if not new then
      new = judge(site, fingerprints, buckets, as_set(seeds), paths, slot.prefix .. 'v:' .. name)
    end
    local added = #new
    if added > 0 then
      local key = slot.prefix .. 'q:' .. name
      local is_head = heads and as_set(heads)
      local items, fronts, run = {}, {}, nil
      for _, i in ipairs(new) do
        answers[answered + i] = NEW
        if is_head and is_head[i] then
          fronts[#fronts + 1] = sub(blob, begins[i], begins[i + 1] - 1)
        elseif run and run[2] == i - 1 then
          run[2] = i
        else
          if run then
            add_items(items, blob, begins, run[1], run[2])
          end
          run = {i, i}
        end
      end
      if run then
        add_items(items, blob, begins, run[1], run[2])
        call('RPUSH', key, unpack(items))
      end
      for _, entry in ipairs(fronts) do
        put_back(slot, site, entry)
      end
      site[QUEUED] = site[QUEUED] + added
      site[ALL] = site[ALL] + added
      site[IS_CHANGED] = true
      if site[QUEUED] - site[MOVED] > most_in_memory then
        call('SADD', slot.prefix .. 'long', name)
      end
      admitted = admitted + added
    end
    answered = answered + n
  end
  write_sites(slot)
  if admitted > 0 then
    slot.header[ADMITTED] = slot.header[ADMITTED] + admitted
    slot.is_changed = true
  end
end
write_headers(slots)
return string.char(unpack(answers))
