-- The server's clock in seconds, and the store's time less that.
SELECT extract(epoch FROM clock_timestamp())::double precision AS server, clock_offset FROM meta
