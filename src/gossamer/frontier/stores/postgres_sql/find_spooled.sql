-- Which of these leases are spooled in a segment.
-- $1: numbers. $2: the segment. Answer: those that are. Index: the primary key of held.
SELECT number FROM held WHERE number = ANY ($1::bigint[]) AND segment = $2::text
