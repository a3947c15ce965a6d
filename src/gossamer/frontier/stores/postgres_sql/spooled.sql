-- What is spooled in a segment. Reads all of `held`: only a recovery asks.
-- $1: the segment. Answer: number and site of each lease.
SELECT number, site FROM held WHERE segment = $1::text
