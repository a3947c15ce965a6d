#!lua flags=no-writes
-- Where all URLs are.
--
-- KEYS     headers of all slots
-- ARGV[1]  now, in decimals
-- Answers  for each slot: [header, counters: name, number, and so on, leased, sites, busy, waiting, ready]

local slots = open_slots()
if not slots then
  return GONE
end

local answer = {}
for i, slot in ipairs(slots) do
  local prefix, h = slot.prefix, slot.header
  answer[i] = {
    pack(HEADER, h[1], h[2], h[3], h[4], h[5], h[6], h[7]),
    call('HGETALL', prefix .. 'c'),
    call('HLEN', prefix .. 'leased'),
    call('HLEN', prefix .. 'sites'),
    call('SCARD', prefix .. 'busy'),
    call('ZCARD', prefix .. 'due'),
    call('ZCOUNT', prefix .. 'due', '-inf', ARGV[1]),
  }
end
return answer
