-- The segments in which URLs are spooled. Reads all of `held`: only a recovery asks.
-- Answer: segment and how many.
SELECT segment, count(*) FROM held WHERE segment IS NOT NULL GROUP BY segment
