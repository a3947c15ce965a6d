-- How many variants of these paths were admitted.
-- $1, $2: sites and fingerprints of paths. Answer: site, path and number of those that are known. Index: the primary key.
SELECT variants.site, variants.path, variants.number
FROM unnest($1::text::bigint[], $2::text::bigint[]) AS wanted (site, path)
JOIN variants ON variants.site = wanted.site AND variants.path = wanted.path
