-- Everything that sites have queued; they are locked.
-- $1: sites. Index: the primary key.
DELETE FROM blocks WHERE site = ANY ($1::bigint[])
