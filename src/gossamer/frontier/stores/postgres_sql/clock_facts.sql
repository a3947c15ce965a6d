-- All that is known of the clock, for the begin of a run; nobody else begins one at the same time.
SELECT extract(epoch FROM clock_timestamp())::double precision AS server, clock_offset, latest, boot, boot_offset
FROM meta FOR UPDATE
