#!lua flags=allow-oom
-- Moves leased URLs to where their outcome sends them.
--
-- KEYS     headers of the slots of these leases
-- ARGV[1]  msgpack: segment, and for each slot: number of a lease, destination ("P" page, "O" outcome, "T" tail with
--          one attempt more, "L" tail, "H" head), reason, and so on
-- Answers  the numbers that are not held any more, and not in this segment either

local slots = open_slots()
if not slots then
  return GONE
end

local given = cmsgpack.unpack(ARGV[1])
local segment = given[1]
local refused = {}

for i, slot in ipairs(slots) do
  local moves = given[2][i]
  local numbers = {}
  for j = 1, #moves, 3 do
    numbers[#numbers + 1] = moves[j]
  end
  local key = slot.prefix .. 'g:' .. segment
  local values = call('HMGET', slot.prefix .. 'leased', unpack(numbers))
  local done, moved, spooled, back = {}, {}, {}, {}
  local pages = 0
  for j, number in ipairs(numbers) do
    local value = values[j]
    local destination = moves[3 * j - 1]
    if not value or done[number] then
      if done[number] ~= 'spooled' and (done[number] or call('HEXISTS', key, number) == 0) then
        refused[#refused + 1] = number
      end
    else
      moved[#moved + 1] = number
      if destination == 'P' or destination == 'O' then
        done[number] = 'spooled'
        spooled[#spooled + 1] = number
        spooled[#spooled + 1] = destination .. value
        if destination == 'P' then
          pages = pages + 1
        else
          taken = taken - 1
        end
      else
        done[number] = 'back'
        taken = taken - 1
        local name, entry = site_and_entry(value, 1)
        if destination == 'T' then
          entry = one_more(entry, ATTEMPT)
        end
        back[#back + 1] = {name, entry, destination == 'H', moves[3 * j]}
      end
    end
  end
  in_portions('HDEL', slot.prefix .. 'leased', moved)
  if #spooled > 0 then
    in_portions('HSET', key, spooled)
    call('SADD', slot.prefix .. 'segs', segment)
    slot.header[SPOOLED] = slot.header[SPOOLED] + #spooled / 2
    slot.header[SPOOLED_PAGES] = slot.header[SPOOLED_PAGES] + pages
    slot.is_changed = true
  end
  if #back > 0 then
    local names = {}
    for j, move in ipairs(back) do
      names[j] = move[1]
    end
    local sites = load_sites(slot, names)
    for _, move in ipairs(back) do
      call('HINCRBY', slot.prefix .. 'c', 'r ' .. move[4], 1)
      requeue(slot, sites[move[1]], move[2], move[3])
    end
    write_sites(slot)
  end
end
write_slots(slots)
return refused
