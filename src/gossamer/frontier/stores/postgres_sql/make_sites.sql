-- New sites, before anything else of them is written. Waits for whoever makes one of them at the same time.
-- $1-$18: the sites, sorted by their keys, a parameter for each column. Answer: how many were made; fewer if somebody
-- else has made one, and then nothing more is written of them. Index: the primary key.
WITH made AS (
    INSERT INTO sites (
        key, slot, is_seeded, dropped, not_before, not_before_lease, last_request_at, crawl_delay_seconds, failures,
        queued, head, head_offset, tail, tail_bytes, admitted, lease, due_at, name
    )
    SELECT * FROM unnest(
        $1::text::bigint[], $2::text::integer[], $3::text::boolean[], $4::text::text[], $5::text::double precision[],
        $6::text::double precision[], $7::text::double precision[], $8::text::double precision[],
        $9::text::integer[], $10::text::bigint[], $11::text::bigint[], $12::text::integer[], $13::text::bigint[],
        $14::text::integer[], $15::text::bigint[], $16::text::bigint[], $17::text::double precision[], $18::bytea[]
    )
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) FROM made
