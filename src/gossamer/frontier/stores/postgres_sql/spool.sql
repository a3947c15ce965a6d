-- Leased URLs whose outcome stands in a segment.
-- $1: numbers of their leases, sorted, so that they are locked in that order. $2: whether each is a page. $3: the segment.
-- Answer: those that were leased until now. Index: the primary key of held.
WITH moved AS (
    UPDATE held SET segment = $3::text, is_page = given.is_page
    FROM unnest($1::bigint[], $2::boolean[]) AS given (number, is_page)
    WHERE held.number = given.number AND held.segment IS NULL
    RETURNING held.number, held.is_page
),
counted AS (
    INSERT INTO deltas
    SELECT '{leased,spooled,spooled_pages}', ARRAY[-count(*), count(*), count(*) FILTER (WHERE is_page)] FROM moved
    HAVING count(*) > 0
)
SELECT number FROM moved
