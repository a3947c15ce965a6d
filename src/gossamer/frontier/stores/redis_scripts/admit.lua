#!lua
-- Marks what was never seen as seen, and queues it.
--
-- KEYS     headers of the slots of these candidates
-- ARGV[1]  msgpack: now, only seeded sites?, site_queue, site_queue_bytes, site_urls, path_variants, URLs of a queue
--          that may be in memory, and for each slot its groups of candidates of one site, one behind the other, each of
--          GROUP values:
--          site, bytes of their entries, fingerprints, which are variants of a path, fingerprints of these paths,
--          and what is unusual: [does one come twice?, which are seeds, which go to the head]
--          Fingerprints are the decimals of signed 64-bit numbers. What there is none of is false.
-- ARGV[2]  the entries of all candidates in the same order, one behind the other
-- Answers  of those that are not new, in that order: place among all, from 1, and a letter of those below, and so on

local slots = open_slots()
if not slots then
  return GONE
end

local GROUP = 6
local SEEN, SITE_DROPPED, SCOPE, SITE_FULL, PATH_VARIANTS, QUEUE_FULL = 83, 68, 79, 70, 86, 81
-- How many URLs so many sets of a site may have. A set of integers stays compact up to 512, and splitting one is what
-- costs most: so a few sets are filled up, 430 each on average, and then doubled. Many are split one after the other,
-- and those that are still to be split have twice as many as the others.
local function room(sets)
  if sets == 1 then
    return 500
  elseif sets <= 4 then
    return 430 * half_of(sets)
  end
  return 200 * sets
end

local given = cmsgpack.unpack(ARGV[1])
local now, only_seeded, site_queue, site_queue_bytes, site_urls, path_variants, most_in_memory = unpack(given, 1, 7)
local blob, at = ARGV[2], 1
local answers, answered = {}, 0

local function refuse(place, answer)
  local n = #answers
  answers[n + 1], answers[n + 2] = answered + place, answer
end

-- Before anything is added: a set that was too large once stays large. If all were seen, a few are split early.
local function split_sets(slot, site, offered)
  local urls = site[ALL] + offered
  while urls > room(site[SETS]) do
    local count = site[SETS]
    local half = half_of(count)
    local source = seen_key(slot, site, count - half)
    local moved, n = {}, 0
    for _, member in ipairs(call('SMEMBERS', source)) do
      if low_bits(member, 2 * half) >= half then
        n = n + 1
        moved[n] = member
      end
    end
    -- Some hundred, but for a site that has chosen its URLs by their fingerprints.
    in_portions('SADD', seen_key(slot, site, count), moved)
    in_portions('SREM', source, moved)
    site[SETS] = count + 1
    site[IS_CHANGED] = true
  end
end

-- The sets of a site in which these fingerprints are, or belong: key, fingerprints, and their places if it has several.
local function sets_of(slot, site, fingerprints)
  local count = site[SETS]
  if count == 1 then
    return {{seen_key(slot, site, 0), fingerprints}}
  end
  local half, by_set, sets = half_of(count), {}, {}
  for i, fingerprint in ipairs(fingerprints) do
    local number = set_of(fingerprint, count, half)
    local set = by_set[number]
    if not set then
      set = {seen_key(slot, site, number), {}, {}}
      by_set[number] = set
      sets[#sets + 1] = set
    end
    local n = #set[2] + 1
    set[2][n], set[3][n] = fingerprint, i
  end
  return sets
end

-- For each fingerprint, 1 if it was seen.
local function look_up(sets)
  if not sets[1][3] then
    return call('SMISMEMBER', sets[1][1], unpack(sets[1][2]))
  end
  local seen = {}
  for _, set in ipairs(sets) do
    for i, is_seen in ipairs(call('SMISMEMBER', set[1], unpack(set[2]))) do
      seen[set[3][i]] = is_seen
    end
  end
  return seen
end

local function mark(sets)
  for _, set in ipairs(sets) do
    call('SADD', set[1], unpack(set[2]))
  end
end

local function as_set(list)
  local set = {}
  for _, i in ipairs(list or {}) do
    set[i] = true
  end
  return set
end

-- How many variants of these paths there are.
local function load_variants(key, paths)
  local variants = {}
  for i, number in ipairs(call('HMGET', key, unpack(paths))) do
    variants[paths[i]] = tonumber(number) or 0
  end
  return variants
end

-- Small numbers as text, each made once: as a number, Redis would write it with all its digits, which is dear.
local texts = {}
local function text_of(number)
  local text = texts[number]
  if not text then
    text = string.format('%d', number)
    texts[number] = text
  end
  return text
end

-- `counts` has those that have changed.
local function write_variants(key, counts)
  local changed, n = {}, 0
  for path, number in pairs(counts) do
    changed[n + 1], changed[n + 2] = path, text_of(number)
    n = n + 2
  end
  in_portions('HSET', key, changed)
end

-- An open site with room for all of them: whether all that are not seen may be admitted, which are counted then. If
-- not, a path would get too many, and nothing was noted.
local function count_variants(seen, places, paths, key)
  local known, counts = call('HMGET', key, unpack(paths)), {}
  for j, i in ipairs(places) do
    if seen[i] == 0 then
      local path = paths[j]
      local number = (counts[path] or tonumber(known[j]) or 0) + 1
      if number > path_variants then
        return false
      end
      counts[path] = number
    end
  end
  write_variants(key, counts)
  return true
end

-- How many bytes the URL of an entry has, which ends before `behind`. After it comes the byte 255 and where it was found,
-- or nothing.
local function url_bytes(entries, begin, behind)
  local text = sub(entries, begin + ENTRY_HEADER_BYTES, behind - 1)
  local mark = string.find(text, '\255', 1, true)
  return mark and mark - 1 or #text
end

-- Whether site_queue_bytes lets all of these into a queue that has `queued` URLs with them.
local function fit(queued, entries)
  if queued * #entries <= site_queue_bytes then
    return true  -- nearly all queues are short
  end
  local begins, n = begins_of(entries)
  local longest = 0
  for i = 1, n do
    longest = math.max(longest, url_bytes(entries, begins[i], begins[i + 1]))
  end
  return queued * longest <= site_queue_bytes
end

-- Which are new where some may be refused, or come twice: one by one, in order.
local function judge(site, fingerprints, seen, seeds, places, paths, key, entries)
  local variants = paths and load_variants(key, paths)
  local begins
  local function has_room(i, queued)
    begins = begins or begins_of(entries)
    return queued <= site_queue and queued * url_bytes(entries, begins[i], begins[i + 1]) <= site_queue_bytes
  end
  local path_of, counts, added, new, n = {}, {}, {}, {}, 0
  for j, i in ipairs(places or {}) do
    path_of[i] = paths[j]
  end
  for i, fingerprint in ipairs(fingerprints) do
    local path, is_seed = path_of[i], seeds[i]
    if is_seed and site[SEEDED] == 0 then
      site[SEEDED] = 1
      site[IS_CHANGED] = true
    end
    local answer
    if seen[i] == 1 or added[fingerprint] then
      answer = SEEN
    elseif site[DROPPED] ~= '' then
      answer = SITE_DROPPED
    elseif only_seeded and site[SEEDED] == 0 then
      answer = SCOPE
    elseif site[ALL] + n >= site_urls and not is_seed then
      answer = SITE_FULL
    elseif path and variants[path] >= path_variants and not is_seed then
      answer = PATH_VARIANTS
    elseif not has_room(i, site[QUEUED] + n + 1) then
      answer = QUEUE_FULL
    end
    if answer then
      refuse(i, answer)
    else
      n = n + 1
      new[n] = i
      added[fingerprint] = true
      if path then
        variants[path] = variants[path] + 1
        counts[path] = variants[path]
      end
    end
  end
  if paths then
    write_variants(key, counts)
  end
  return new
end

-- Of those that are new, from `first` to `last` of a run of them, what goes behind the queue or before it.
local function place(items, fronts, is_head, entries, begins, first, last)
  local begin = first
  for i = first, last do
    if is_head[i] then
      fronts[#fronts + 1] = sub(entries, begins[i], begins[i + 1] - 1)
      add_items(items, entries, begins, begin, i - 1)
      begin = i + 1
    end
  end
  add_items(items, entries, begins, begin, last)
end

-- Puts those that are new behind the queue, or before it. `new` are their places, in order; nil if all of them are.
local function push(slot, site, new, n, entries, heads)
  local key = slot.prefix .. 'q:' .. site[NAME]
  if not new and not heads and #entries <= ITEM_BYTES then
    call('RPUSH', key, entries)  -- as usual: they are an item as they are
    return
  end
  local items, fronts, is_head = {}, {}, as_set(heads)
  local begins = begins_of(entries)
  if not new then
    place(items, fronts, is_head, entries, begins, 1, n)
  else
    local first = new[1]
    for j = 2, n + 1 do
      if new[j] ~= new[j - 1] + 1 then
        place(items, fronts, is_head, entries, begins, first, new[j - 1])
        first = new[j]
      end
    end
  end
  in_portions('RPUSH', key, items)
  for _, entry in ipairs(fronts) do
    put_back(slot, site, entry)
  end
end

local function queue(slot, site, new, n, entries, heads)
  if site[QUEUED] == 0 and site[LEASE] == 0 then
    site[NOT_BEFORE] = math.max(site[NOT_BEFORE], now)
  end
  push(slot, site, new, n, entries, heads)
  site[QUEUED] = site[QUEUED] + n
  site[ALL] = site[ALL] + n
  site[IS_CHANGED] = true
  if site[QUEUED] - site[MOVED] > most_in_memory then
    call('SADD', slot.prefix .. 'long', site[NAME])
  end
end

-- The places of those that are not seen, and the others refused; nil if all of them are not seen, as usual.
local function unseen(seen)
  local new, n, has_seen = {}, 0, false
  for _, is_seen in ipairs(seen) do
    if is_seen == 1 then
      has_seen = true
      break
    end
  end
  if not has_seen then
    return nil
  end
  for i, is_seen in ipairs(seen) do
    if is_seen == 1 then
      refuse(i, SEEN)
    else
      n = n + 1
      new[n] = i
    end
  end
  return new
end

-- The group of candidates of one site that begins there. Answers how many are new, and how many there are.
local function admit(slot, groups, begin)
  local name, bytes, fingerprints, places, paths, unusual = unpack(groups, begin, begin + GROUP - 1)
  local has_twice, seeds, heads
  if unusual then
    has_twice, seeds, heads = unpack(unusual, 1, 3)
  end
  local site, n = slot.sites[name], #fingerprints
  local entries = sub(blob, at, at + bytes - 1)
  at = at + bytes
  split_sets(slot, site, n)
  local sets = sets_of(slot, site, fingerprints)
  local seen = look_up(sets)
  local is_open = not has_twice and site[DROPPED] == '' and (not only_seeded or site[SEEDED] == 1)
    and site[QUEUED] + n <= site_queue and site[ALL] + n <= site_urls and fit(site[QUEUED] + n, entries)
  local variants_key = paths and slot.prefix .. 'v:' .. name
  local new
  if is_open and (not paths or count_variants(seen, places, paths, variants_key)) then
    if seeds and site[SEEDED] == 0 then
      site[SEEDED] = 1
      site[IS_CHANGED] = true
    end
    new = unseen(seen)
  else
    new = judge(site, fingerprints, seen, as_set(seeds), places, paths, variants_key, entries)
  end
  local added = n
  if new then
    local marked = {}
    for j, i in ipairs(new) do
      marked[j] = fingerprints[i]
    end
    added, sets = #new, sets_of(slot, site, marked)
  end
  if added > 0 then
    mark(sets)
    queue(slot, site, new, added, entries, heads)
  end
  return added, n
end

for s, slot in ipairs(slots) do
  local groups = given[8][s]
  local names = {}
  for begin = 1, #groups, GROUP do
    names[#names + 1] = groups[begin]
  end
  load_sites(slot, names, true)
  local admitted = 0
  for begin = 1, #groups, GROUP do
    local added, offered = admit(slot, groups, begin)
    admitted = admitted + added
    answered = answered + offered
  end
  write_sites(slot)
  if admitted > 0 then
    slot.header[ADMITTED] = slot.header[ADMITTED] + admitted
    slot.is_changed = true
  end
end
write_slots(slots)
return answers
