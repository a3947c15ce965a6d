-- Spooled URLs of a lost segment go back to their sites, which are locked.
-- $1: numbers of their leases, sorted. $2: the segment. Answer: those that were spooled in it. Index: the primary key of held.
DELETE FROM held WHERE number = ANY ($1::bigint[]) AND segment = $2::text RETURNING number, site, is_page, url
