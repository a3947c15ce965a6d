-- Marks URLs as seen, those of sites that are locked or not made yet.
-- $1, $2: sites and fingerprints, sorted by both. Answer: those that were not seen before. Index: the primary key.
INSERT INTO seen (site, fingerprint)
SELECT * FROM unnest($1::bigint[], $2::bigint[])
ON CONFLICT DO NOTHING
RETURNING site, fingerprint
