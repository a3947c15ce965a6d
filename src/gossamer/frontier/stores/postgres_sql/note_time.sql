-- The latest time that any owner has named.
-- $1: that time.
UPDATE meta SET latest = $1::double precision WHERE latest < $1::double precision
