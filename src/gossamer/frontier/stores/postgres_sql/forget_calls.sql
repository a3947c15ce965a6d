-- Calls of whose leases none is held any more are of no use.
-- Index: the primary key of held, for each number; there are few calls.
DELETE FROM calls
WHERE NOT EXISTS (
    SELECT FROM unnest(calls.numbers) AS given (number)
    JOIN held ON held.number = given.number AND held.segment IS NULL
)
