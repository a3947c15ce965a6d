-- Sites for one transaction to change, locked in the order of their keys.
-- $1: keys. Answer: those that there are, in the order of the fields of `Site`. Index: the primary key.
-- $1 is no text: a row that somebody else has changed since is compared with it once more.
SELECT key, slot, is_seeded, dropped, not_before, not_before_lease, last_request_at, crawl_delay_seconds, failures,
    queued, head, head_offset, tail, tail_bytes, admitted, lease, due_at
FROM sites
WHERE key = ANY ($1::bigint[])
ORDER BY key
FOR UPDATE
