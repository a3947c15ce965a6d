-- How many variants of these paths are admitted now; their sites are locked.
-- $1, $2, $3: sites, fingerprints of paths and numbers, sorted by the first two. Index: the primary key.
INSERT INTO variants (site, path, number)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])
ON CONFLICT (site, path) DO UPDATE SET number = excluded.number
