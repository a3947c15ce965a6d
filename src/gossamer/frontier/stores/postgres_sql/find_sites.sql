-- Whether any of these sites is there by now.
-- $1: keys. Answer: true or false. Index: the primary key.
SELECT EXISTS (SELECT FROM sites WHERE key = ANY ($1::text::bigint[]))
