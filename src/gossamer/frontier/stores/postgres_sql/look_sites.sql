-- What is known of sites, and of their slots.
-- $1: keys. Answer: those that there are. Index: the primary key.
SELECT sites.name, sites.slot, sites.is_seeded, sites.dropped, sites.not_before, sites.last_request_at,
    sites.crawl_delay_seconds, sites.failures, sites.queued, sites.admitted, sites.lease, slots.owner, slots.epoch,
    slots.until, sites.key, sites.head, sites.head_offset
FROM sites
JOIN slots ON slots.slot = sites.slot
WHERE sites.key = ANY ($1::bigint[])
