-- Leased URLs go back to their sites, which are locked.
-- $1: numbers of their leases, sorted. Answer: those that were leased until now. Index: the primary key of held.
DELETE FROM held
USING unnest($1::bigint[]) AS given (number)
WHERE held.number = given.number AND held.segment IS NULL
RETURNING held.number, held.site, held.url
