-- A run begins.
-- $1-$4: the facts of the clock. Answer: its number.
UPDATE meta SET clock_offset = $1::double precision, latest = $2::double precision, boot = $3::bigint,
    boot_offset = $4::double precision, run = run + 1
RETURNING run
