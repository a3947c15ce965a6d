-- Leased URLs whose outcome stands in a segment.
-- $1: numbers of their leases, sorted, so that they are locked in that order. $2: whether each is a page. $3: the segment.
-- Answer: those that were leased until now. Index: the primary key of held.
-- Not joined with the arrays: `held` is often nearly empty, and a plan that was made then reads all of it, dead rows too.
WITH moved AS (
    UPDATE held SET segment = $3::text, is_page = ($2::boolean[])[array_position($1::bigint[], number)]
    WHERE number = ANY ($1::bigint[]) AND segment IS NULL
    RETURNING number, is_page
),
counted AS (
    INSERT INTO deltas
    SELECT '{leased,spooled,spooled_pages}', ARRAY[-count(*), count(*), count(*) FILTER (WHERE is_page)] FROM moved
    HAVING count(*) > 0
)
SELECT number FROM moved
