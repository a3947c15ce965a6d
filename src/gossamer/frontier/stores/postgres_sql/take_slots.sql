-- Slots that are free, or whose owner's time ran out, get a new owner and epoch.
-- $1: owner. $2: slots. $3: now. $4: until when. Answer: those that were taken, and their epochs.
UPDATE slots SET owner = $1::text, epoch = epoch + 1, until = $4::double precision
WHERE slot = ANY ($2::integer[]) AND owner IS DISTINCT FROM $1::text
    AND (owner IS NULL OR until <= $3::double precision)
RETURNING slot, epoch
