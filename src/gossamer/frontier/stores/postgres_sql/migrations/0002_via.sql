-- Entries of queues, and of what is held, may say where their URL was found; see entries.py. Those that do not are read
-- as before: nothing changes but the number, which keeps older versions from what they cannot read.
COMMENT ON COLUMN blocks.urls IS 'entries, which may say where each was found';
