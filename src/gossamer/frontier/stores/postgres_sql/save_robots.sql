-- Replaces what was known of origins.
-- $1: hashes of their names, sorted, so that they are locked in that order. $2: the copies. Index: the primary key.
INSERT INTO robots (origin, copy)
SELECT * FROM unnest($1::bigint[], $2::bytea[])
ON CONFLICT (origin) DO UPDATE SET copy = excluded.copy
