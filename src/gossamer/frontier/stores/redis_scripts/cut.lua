#!lua flags=allow-oom
-- Puts the last entries of a long queue into a block, and a reference to it in their place. References that stand
-- behind them stay behind: so one call after the other cuts a queue from its end.
--
-- KEYS[1]  header of the slot
-- ARGV     site, entries of a block, how many URLs the queue may keep
-- Answers  the number of the block; 0 if the queue is not long any more

local slots = open_slots()
if not slots then
  return GONE
end

local slot, name = slots[1], ARGV[1]
local least, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local key = slot.prefix .. 'q:' .. name
-- Items that are looked at together.
local STEP = 64

-- The last items, latest first, until they have enough entries or a reference comes; how many entries; and the
-- references that stand behind them, latest first. The first item of the queue is left: some of it may be taken.
local function last_items()
  local items, entries, behind = {}, 0, {}
  for last = call('LLEN', key), 2, -STEP do
    local some = call('LRANGE', key, math.max(1, last - STEP), last - 1)
    for i = #some, 1, -1 do
      if not block_of(some[i]) then
        local _, n = begins_of(some[i])
        items[#items + 1] = some[i]
        entries = entries + n
        if entries >= least then
          return items, entries, behind
        end
      elseif entries > 0 then
        return items, entries, behind
      else
        behind[#behind + 1] = some[i]
      end
    end
  end
  return items, entries, behind
end

local function reversed(list)
  local turned = {}
  for i = #list, 1, -1 do
    turned[#turned + 1] = list[i]
  end
  return turned
end

local site = load_sites(slot, {name})[name]
if site and site[QUEUED] - site[MOVED] > most then
  local items, entries, behind = last_items()
  if entries > 0 then
    local number = slot.header[BLOCKS] + 1
    slot.header[BLOCKS] = number
    slot.is_changed = true
    call('LTRIM', key, 0, -(#items + #behind) - 1)
    behind[#behind + 1] = REFERENCE .. pack('<dI4', number, entries)
    in_portions('RPUSH', key, reversed(behind))
    call('HSET', slot.prefix .. 'blocks', number, 'B' .. table.concat(reversed(items)))
    call('SADD', slot.prefix .. 'unmoved', number)
    site[MOVED] = site[MOVED] + entries
    site[IS_CHANGED] = true
    write_sites(slot)
    write_slots(slots)
    return number
  end
end
call('SREM', slot.prefix .. 'long', name)
return 0
