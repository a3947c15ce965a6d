-- First blocks of queues lose what was taken of them, because others come before them.
-- $1, $2, $3: sites, places and how many bytes. Index: the primary key.
UPDATE blocks SET urls = substring(blocks.urls FROM cut.taken + 1)
FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS cut (site, place, taken)
WHERE blocks.site = cut.site AND blocks.place = cut.place
