-- Frees the sites of leases, those that are still held under their number.
-- $1: sites, sorted, so that they are locked in that order. $2: numbers of their leases. $3: whether a request was sent.
-- $4: the earliest next one. $5-$7: the clock. Index: the primary key; `due` gets what waits.
WITH freed AS (
    UPDATE sites SET
        lease = 0,
        not_before = greatest(
            CASE WHEN given.was_requested THEN sites.not_before ELSE sites.not_before_lease END, given.not_before
        ),
        due_at = CASE WHEN sites.queued > 0 THEN greatest(
            CASE WHEN given.was_requested THEN sites.not_before ELSE sites.not_before_lease END, given.not_before
        ) END,
        last_request_at = given.last_request_at,
        crawl_delay_seconds = given.crawl_delay_seconds,
        failures = given.failures
    FROM unnest(
        $1::text::bigint[], $2::text::bigint[], $3::text::boolean[], $4::text::double precision[],
        $5::text::double precision[], $6::text::double precision[], $7::text::integer[]
    ) AS given (key, number, was_requested, not_before, last_request_at, crawl_delay_seconds, failures)
    WHERE sites.key = given.key AND sites.lease = given.number
    RETURNING sites.queued > 0 AS is_waiting
)
INSERT INTO deltas
SELECT '{sites_busy,sites_waiting}', ARRAY[-count(*), count(*) FILTER (WHERE is_waiting)] FROM freed
HAVING count(*) > 0
