-- The busy sites of slots.
-- $1: slots. Answer: their keys. Index: `due` on sites.
SELECT sites.key FROM unnest($1::integer[]) AS wanted (slot)
JOIN sites ON sites.slot = wanted.slot AND sites.due_at = 'infinity'
