-- All totals, and how many sites are due, as of one moment.
-- $1: number of slots. $2: now. $3: how many sites are counted at most. Answer: name and value. Index: `due` on sites.
SELECT name, value FROM counts
UNION ALL
SELECT 'sites_ready', count(*) FROM (
    SELECT FROM generate_series(0, $1::integer - 1) AS wanted (slot)
    JOIN sites ON sites.slot = wanted.slot AND sites.due_at <= $2::double precision
    LIMIT $3::bigint
) AS ready
