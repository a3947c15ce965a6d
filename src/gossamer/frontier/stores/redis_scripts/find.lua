#!lua flags=no-writes
-- What is known of one URL at one moment, and the beginning of its queue.
--
-- KEYS[1]  header of the slot
-- ARGV     site, fingerprint as entries have it, its decimals, the fingerprint of its path (or ""), items of the queue
-- Answers  [epoch, owner or "", until or "", record of the site or "", 1 if it is seen, variants of its path,
--           number of the lease that holds it or 0, segment or "", entry or "", [items of the queue, if it may be there]]

local slots = open_slots()
if not slots then
  return GONE
end

local slot, name, fingerprint = slots[1], ARGV[1], ARGV[2]
local prefix = slot.prefix
local owner = call('HMGET', prefix .. 'w', 'owner', 'until')
local record = call('HGET', prefix .. 'sites', name)
local answer = {slot.header[EPOCH], owner[1] or '', owner[2] or '', record or '', 0, 0, 0, '', '', {}}
if not record then
  return answer
end

local site = load_sites(slot, {name})[name]
local set = set_of(ARGV[3], site[SETS], half_of(site[SETS]))
answer[5] = call('SISMEMBER', seen_key(slot, site, set), ARGV[3])
if ARGV[4] ~= '' then
  answer[6] = tonumber(call('HGET', prefix .. 'v:' .. name, ARGV[4])) or 0
end
if answer[5] == 0 then
  return answer
end

-- Of one slot few are held at a time.
local stem = pack('<I4', #name) .. name
local function look_for(key, begin, segment)
  local from = begin + #stem
  local fields = call('HGETALL', key)
  for i = 1, #fields, 2 do
    local value = fields[i + 1]
    if sub(value, from + 4, from + 11) == fingerprint and sub(value, begin, from - 1) == stem then
      answer[7], answer[8], answer[9] = tonumber(fields[i]), segment, sub(value, from)
      return true
    end
  end
end

if look_for(prefix .. 'leased', 1, '') then
  return answer
end
for _, segment in ipairs(call('SMEMBERS', prefix .. 'segs')) do
  if look_for(prefix .. 'g:' .. segment, 2, segment) then
    return answer
  end
end
answer[10] = call('LRANGE', prefix .. 'q:' .. name, 0, tonumber(ARGV[5]) - 1)
return answer
