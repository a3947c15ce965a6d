-- What is leased of slots. Reads all of `held`: only who takes a slot asks.
-- $1: slots. Answer: number and site of each lease.
SELECT number, site FROM held WHERE segment IS NULL AND slot = ANY ($1::integer[])
