-- Spooled URLs are done with.
-- $1: numbers of their leases, sorted. $2: segments. $3: reasons. $4: bytes received. Index: the primary key of held.
-- Not joined with the arrays: see spool.sql.
WITH gone AS (
    DELETE FROM held
    WHERE number = ANY ($1::bigint[]) AND segment = ($2::text[])[array_position($1::bigint[], number)]
    RETURNING is_page, array_position($1::bigint[], number) AS place
),
done AS (
    SELECT is_page, ($3::text[])[place] AS reason, ($4::bigint[])[place] AS received_bytes FROM gone
),
changes (name, amount) AS (
    SELECT 'outcome ' || reason, count(*) FROM done GROUP BY reason
    UNION ALL
    SELECT total.name, total.amount
    FROM (SELECT count(*) AS urls, count(*) FILTER (WHERE is_page) AS pages, sum(received_bytes) AS bytes FROM done) AS g
    CROSS JOIN LATERAL (
        VALUES ('finished', g.urls), ('spooled', -g.urls), ('spooled_pages', -g.pages), ('received_bytes', g.bytes)
    ) AS total (name, amount)
    WHERE g.urls > 0
)
INSERT INTO deltas SELECT array_agg(name), array_agg(amount::bigint) FROM changes HAVING count(*) > 0
