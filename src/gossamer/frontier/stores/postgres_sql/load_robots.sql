-- What is known of origins.
-- $1: hashes of their names. Answer: the copies. Index: the primary key.
SELECT copy FROM robots WHERE origin = ANY ($1::bigint[])
