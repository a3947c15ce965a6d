-- Somebody has set the server's clock: the store's time goes on as if nobody had. Of several that see it, one does.
-- $1: the offset as it was. $2: as it is to be. Answer: whether it was done.
UPDATE meta SET clock_offset = $2::double precision WHERE clock_offset = $1::double precision RETURNING true
