-- The embedded store: one file, shared by all processes of a crawl.

-- Facts about the crawl as a whole: its number of slots, runs, the store's clock.
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- Totals, so that none has to be counted: one row each, added to at the end of each transaction.
CREATE TABLE counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

-- Who owns which slot. A new epoch takes back every lease of the slot in the same transaction, so whatever stands in
-- `held` without a segment is held under the present epoch.
CREATE TABLE slots (slot INTEGER PRIMARY KEY, owner TEXT, epoch INTEGER NOT NULL, until REAL NOT NULL);

-- One row per site. Its id is its place here and in `seen`; see `_site_id` in sqlite_sites.py. Only in `names` sites
-- stand as randomly as the hash of a name is. `due_at` is `not_before` where something is queued and nothing is
-- leased, else NULL: only those stand in the index that leasing reads.
CREATE TABLE sites (
    id INTEGER PRIMARY KEY,
    hash INTEGER NOT NULL,
    name TEXT NOT NULL,
    slot INTEGER NOT NULL,
    is_seeded INTEGER NOT NULL,
    dropped TEXT,
    not_before REAL NOT NULL,
    not_before_lease REAL NOT NULL,
    last_request_at REAL NOT NULL,
    crawl_delay_seconds REAL NOT NULL,
    failures INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    head INTEGER NOT NULL,
    head_offset INTEGER NOT NULL,
    tail INTEGER NOT NULL,
    tail_bytes INTEGER NOT NULL,
    admitted INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    due_at REAL
);
CREATE UNIQUE INDEX names ON sites (hash);
CREATE INDEX due ON sites (slot, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX busy ON sites (slot) WHERE lease > 0;

-- Every URL that was ever admitted: the latest of each site in one row, the others in a tree; see sqlite_seen.py. With
-- the latter go the URLs that differ only in their parameters, by the fingerprint of their path, and how many they are.
CREATE TABLE recent (site INTEGER PRIMARY KEY, fingerprints BLOB NOT NULL, paths BLOB NOT NULL);
CREATE TABLE seen (site INTEGER, fingerprint INTEGER, PRIMARY KEY (site, fingerprint)) WITHOUT ROWID;
CREATE TABLE variants (
    site INTEGER, path INTEGER, number INTEGER NOT NULL, PRIMARY KEY (site, path)
) WITHOUT ROWID;

-- A site's queue: its blocks by their id, each many URLs one behind the other; see sqlite_sites.py. New blocks stand at
-- the end of the table, whatever their site: a page of the file takes those of many sites, and is written once.
CREATE TABLE blocks (id INTEGER PRIMARY KEY, site INTEGER NOT NULL, urls BLOB NOT NULL);
CREATE INDEX queue ON blocks (site);

-- Leased URLs, and with a segment spooled ones, until they are finished or go back.
CREATE TABLE held (
    number INTEGER PRIMARY KEY,
    site INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    segment TEXT,
    is_page INTEGER NOT NULL,
    url BLOB NOT NULL
);

-- Which leases a call was given, for a caller that did not hear the answer: their numbers follow one another.
CREATE TABLE calls (call TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL) WITHOUT ROWID;

-- What is known of each origin's robots.txt: a RobotsCopy, encoded and compressed.
CREATE TABLE robots (origin TEXT PRIMARY KEY, copy BLOB NOT NULL);
