-- A piece of a queue.
-- $1: key of the site. $2: the place before it. $3: how many blocks. Answer: place and URLs. Index: the primary key.
SELECT place, urls FROM blocks WHERE site = $1::bigint AND place > $2::bigint ORDER BY place LIMIT $3::bigint
