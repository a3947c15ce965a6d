-- What was counted since the last time goes into the totals. What another transaction folds meanwhile is left to it.
-- $1: how many rows at most.
WITH gone AS (
    DELETE FROM deltas
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM deltas LIMIT $1::bigint FOR UPDATE SKIP LOCKED))
    RETURNING names, amounts
)
INSERT INTO totals (name, value)
SELECT delta.name, sum(delta.amount) FROM gone CROSS JOIN unnest(gone.names, gone.amounts) AS delta (name, amount)
GROUP BY delta.name
ORDER BY delta.name
ON CONFLICT (name) DO UPDATE SET value = totals.value + excluded.value
