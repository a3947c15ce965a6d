-- Leases of sites that are due; the function of that name in the migrations says how.
-- $1: call id. $2, $3: slots in the order in which they are served, and their epochs. $4: limit. $5: now.
-- $6: delay in seconds. $7: page budget, or 0. $8: whether to wait for the site that is due for longest.
-- Answer: the leases, and a last row with `next_due_at`.
-- Index: `due` on sites, and primary keys.
SELECT number, slot, epoch, name, url, last_request_at, crawl_delay_seconds, failures, next_due_at
FROM lease(
    $1::text, $2::text::integer[], $3::text::bigint[], $4::bigint, $5::double precision, $6::double precision,
    $7::bigint, $8::boolean
)
