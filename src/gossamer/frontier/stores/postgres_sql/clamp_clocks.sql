-- No site is closed for longer than that. Reads all sites, once in a run.
-- $1: the latest time at which any opens again.
UPDATE sites SET
    not_before = least(not_before, $1::double precision),
    not_before_lease = least(not_before_lease, $1::double precision),
    due_at = CASE WHEN due_at < 'infinity' THEN least(due_at, $1::double precision) ELSE due_at END
WHERE not_before > $1::double precision OR not_before_lease > $1::double precision
