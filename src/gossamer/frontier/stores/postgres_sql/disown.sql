-- The slots of an owner are free.
-- $1: owner.
UPDATE slots SET owner = NULL WHERE owner = $1::text
