-- Which of these URLs are seen.
-- $1, $2: sites and fingerprints. Answer: those that are. Index: the primary key.
SELECT seen.site, seen.fingerprint
FROM unnest($1::text::bigint[], $2::text::bigint[]) AS wanted (site, fingerprint)
JOIN seen ON seen.site = wanted.site AND seen.fingerprint = wanted.fingerprint
