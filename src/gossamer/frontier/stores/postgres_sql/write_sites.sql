-- All that a transaction has changed of sites, which it has locked, or made. In one statement, to save round trips:
-- no part of it sees what another does, and no row is changed by two.
-- $1-$3: new blocks: sites, places, URLs. $4-$6: last blocks that grow: sites, places, URLs. $7-$22: the sites that were
-- there, a parameter for each column but slot and name. $23, $24: names and amounts of what is counted. $25, $26: URLs
-- that were never seen, sites and fingerprints, sorted by both. $27: how many of the paths that follow have no row yet:
-- the first ones. $28-$30: how many variants paths have now: sites, fingerprints, numbers.
-- Index: the primary keys. URLs and paths are inserted without asking again whether they are there, which would cost
-- half as much again: the caller has looked, and nobody else adds any to a site that is locked or not made yet.
WITH new_blocks AS (
    INSERT INTO blocks (site, place, urls)
    SELECT * FROM unnest($1::text::bigint[], $2::text::bigint[], $3::bytea[])
),
grown_blocks AS (
    UPDATE blocks SET urls = blocks.urls || grown.urls
    FROM unnest($4::text::bigint[], $5::text::bigint[], $6::bytea[]) AS grown (site, place, urls)
    WHERE blocks.site = grown.site AND blocks.place = grown.place
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
    FROM unnest(
        $7::text::bigint[], $8::text::boolean[], $9::text::text[], $10::text::double precision[],
        $11::text::double precision[], $12::text::double precision[], $13::text::double precision[],
        $14::text::integer[], $15::text::bigint[], $16::text::bigint[], $17::text::integer[], $18::text::bigint[],
        $19::text::integer[], $20::text::bigint[], $21::text::bigint[], $22::text::double precision[]
    ) AS changed (
        key, is_seeded, dropped, not_before, not_before_lease, last_request_at, crawl_delay_seconds, failures, queued,
        head, head_offset, tail, tail_bytes, admitted, lease, due_at
    )
    WHERE sites.key = changed.key
),
new_seen AS (
    INSERT INTO seen (site, fingerprint) SELECT * FROM unnest($25::text::bigint[], $26::text::bigint[])
),
paths AS MATERIALIZED (
    SELECT * FROM unnest($28::text::bigint[], $29::text::bigint[], $30::text::bigint[]) WITH ORDINALITY
        AS given (site, path, number, turn)
),
new_variants AS (
    INSERT INTO variants (site, path, number) SELECT site, path, number FROM paths WHERE turn <= $27::bigint
),
grown_variants AS (
    UPDATE variants SET number = paths.number
    FROM paths WHERE paths.turn > $27::bigint AND variants.site = paths.site AND variants.path = paths.path
)
INSERT INTO deltas SELECT $23::text[], $24::bigint[] WHERE cardinality($23::text[]) > 0
