-- Whether somebody holds a URL. For a person who asks: no index is kept up for it, and what is held is little.
-- $1: key of the site. $2: the fingerprint, as entries have it. Answer: number, segment and entry, or nothing.
SELECT number, segment, url FROM held WHERE site = $1::bigint AND substring(url FROM 5 FOR 8) = $2::bytea LIMIT 1
