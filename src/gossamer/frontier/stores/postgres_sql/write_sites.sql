-- All that a transaction has changed of sites, which it has locked, or made. In one statement, to save round trips:
-- no part of it sees what another does, and no row is changed by two.
-- $1-$3: new blocks: sites, places, URLs. $4-$6: last blocks that grow: sites, places, URLs. $7: how many of the sites
-- that follow are new: the first ones. $8-$25: the sites, a parameter for each column. $26, $27: names and amounts of
-- what is counted. Answer: how many sites were made; fewer than were new if somebody else has made one at the same time.
-- Index: the primary keys.
WITH new_blocks AS (
    INSERT INTO blocks (site, place, urls)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])
    -- Only where somebody else has made the same site: then all of this is rolled back.
    ON CONFLICT DO NOTHING
),
grown_blocks AS (
    UPDATE blocks SET urls = blocks.urls || grown.urls
    FROM unnest($4::bigint[], $5::bigint[], $6::bytea[]) AS grown (site, place, urls)
    WHERE blocks.site = grown.site AND blocks.place = grown.place
),
changed AS MATERIALIZED (
    SELECT * FROM unnest(
        $8::bigint[], $9::integer[], $10::boolean[], $11::text[], $12::double precision[], $13::double precision[],
        $14::double precision[], $15::double precision[], $16::integer[], $17::bigint[], $18::bigint[], $19::integer[],
        $20::bigint[], $21::integer[], $22::bigint[], $23::bigint[], $24::double precision[], $25::bytea[]
    ) WITH ORDINALITY AS site (
        key, slot, is_seeded, dropped, not_before, not_before_lease, last_request_at, crawl_delay_seconds, failures,
        queued, head, head_offset, tail, tail_bytes, admitted, lease, due_at, name, turn
    )
),
made AS (
    INSERT INTO sites (
        key, slot, is_seeded, dropped, not_before, not_before_lease, last_request_at, crawl_delay_seconds, failures,
        queued, head, head_offset, tail, tail_bytes, admitted, lease, due_at, name
    )
    SELECT key, slot, is_seeded, dropped, not_before, not_before_lease, last_request_at, crawl_delay_seconds, failures,
        queued, head, head_offset, tail, tail_bytes, admitted, lease, due_at, name
    FROM changed WHERE turn <= $7::bigint
    ON CONFLICT DO NOTHING
    RETURNING 1
),
updated AS (
    UPDATE sites SET
        is_seeded = changed.is_seeded,
        dropped = changed.dropped,
        not_before = changed.not_before,
        not_before_lease = changed.not_before_lease,
        last_request_at = changed.last_request_at,
        crawl_delay_seconds = changed.crawl_delay_seconds,
        failures = changed.failures,
        queued = changed.queued,
        head = changed.head,
        head_offset = changed.head_offset,
        tail = changed.tail,
        tail_bytes = changed.tail_bytes,
        admitted = changed.admitted,
        lease = changed.lease,
        due_at = changed.due_at
    FROM changed WHERE changed.turn > $7::bigint AND sites.key = changed.key
),
counted AS (
    INSERT INTO deltas SELECT $26::text[], $27::bigint[] WHERE cardinality($26::text[]) > 0
)
SELECT count(*) FROM made
