-- Leased URLs go back to their sites, which are locked.
-- $1: numbers of their leases, sorted. Answer: those that were leased until now. Index: the primary key of held.
DELETE FROM held WHERE number = ANY ($1::bigint[]) AND segment IS NULL RETURNING number, site, url
