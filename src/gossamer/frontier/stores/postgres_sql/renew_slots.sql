-- An owner keeps the slots that are its own.
-- $1: owner. $2: slots. $3: until when. Answer: those that are, and their epochs. Index: none, there are few slots.
UPDATE slots SET until = $3::double precision
WHERE owner = $1::text AND slot = ANY ($2::integer[])
RETURNING slot, epoch
