-- Spooled URLs are done with.
-- $1: numbers of their leases, sorted. $2: segments. $3: reasons. $4: bytes received. Index: the primary key of held.
WITH gone AS (
    DELETE FROM held
    USING unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS given (number, segment, reason, received_bytes)
    WHERE held.number = given.number AND held.segment = given.segment
    RETURNING held.is_page, given.reason, given.received_bytes
),
changes (name, amount) AS (
    SELECT 'outcome ' || reason, count(*) FROM gone GROUP BY reason
    UNION ALL
    SELECT total.name, total.amount
    FROM (SELECT count(*) AS urls, count(*) FILTER (WHERE is_page) AS pages, sum(received_bytes) AS bytes FROM gone) AS g
    CROSS JOIN LATERAL (
        VALUES ('finished', g.urls), ('spooled', -g.urls), ('spooled_pages', -g.pages), ('received_bytes', g.bytes)
    ) AS total (name, amount)
    WHERE g.urls > 0
)
INSERT INTO deltas SELECT array_agg(name), array_agg(amount::bigint) FROM changes HAVING count(*) > 0
