-- Spooled URLs of a lost segment go back to their sites, which are locked.
-- $1: numbers of their leases, sorted. $2: the segment. Answer: those that were spooled in it. Index: the primary key of held.
DELETE FROM held
USING unnest($1::bigint[]) AS given (number)
WHERE held.number = given.number AND held.segment = $2::text
RETURNING held.number, held.site, held.is_page, held.url
