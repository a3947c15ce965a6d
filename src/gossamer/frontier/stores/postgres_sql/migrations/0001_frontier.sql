-- The frontier of one crawl, in a schema of its own: the search path of every session is that schema alone.
--
-- Order of locking, for everything: the table `slots`, then sites by their key, then what belongs to a site (seen,
-- variants, blocks), then held by its number. Counters are locked by nobody but who folds them.
--
-- Hot tables are vacuumed early: a table that is updated constantly must not wait until a fifth of it is dead.

-- Facts about the crawl as a whole. `identity` tells it from another frontier that was put in its place.
CREATE TABLE meta (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    version integer NOT NULL,
    identity uuid NOT NULL DEFAULT gen_random_uuid(),
    slots integer NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    run integer NOT NULL DEFAULT 0,
    clock_offset double precision NOT NULL DEFAULT 0,
    latest double precision NOT NULL DEFAULT 0,
    boot bigint NOT NULL DEFAULT 0,
    boot_offset double precision NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Who owns which slot. A new epoch takes back every lease of the slot in the same transaction, so whatever stands in
-- `held` without a segment is held under the present epoch.
CREATE TABLE slots (
    slot integer PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    until double precision NOT NULL DEFAULT 0,
    owner text
) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row per site; `key` is the hash of its name, and `slot` follows from it. A queue is the blocks from `head` to
-- `tail`; of the first, `head_offset` bytes are taken already. `due_at` is where a site stands in the one index that
-- leasing reads: its `not_before` while something waits and nothing is leased, infinity while it is busy, else NULL.
-- Numbers stand first and names last: so nothing is lost to alignment.
CREATE TABLE sites (
    key bigint PRIMARY KEY,
    due_at double precision,
    not_before double precision NOT NULL,
    not_before_lease double precision NOT NULL,
    last_request_at double precision NOT NULL,
    crawl_delay_seconds double precision NOT NULL,
    lease bigint NOT NULL,
    admitted bigint NOT NULL,
    queued bigint NOT NULL,
    head bigint NOT NULL,
    tail bigint NOT NULL,
    head_offset integer NOT NULL,
    tail_bytes integer NOT NULL,
    failures integer NOT NULL,
    slot integer NOT NULL,
    is_seeded boolean NOT NULL,
    name bytea NOT NULL,
    dropped text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX due ON sites (slot, due_at) WHERE due_at IS NOT NULL;

-- Every URL that was ever admitted. The site comes first: the links of a page lead to few sites, so they meet in few
-- pages of the index.
CREATE TABLE seen (site bigint, fingerprint bigint, PRIMARY KEY (site, fingerprint));

-- How many URLs of a site were admitted that differ only in their parameters, by the fingerprint of their path.
CREATE TABLE variants (site bigint, path bigint, number bigint NOT NULL, PRIMARY KEY (site, path))
    WITH (fillfactor = 80);

-- The queues: each row many URLs of one site, one behind the other; entries.py says what each is.
CREATE TABLE blocks (site bigint, place bigint, urls bytea NOT NULL, PRIMARY KEY (site, place))
    WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Leased URLs, and with a segment spooled ones, until they are finished or go back.
CREATE SEQUENCE numbers MAXVALUE 9007199254740991;
CREATE TABLE held (
    number bigint PRIMARY KEY,
    site bigint NOT NULL,
    slot integer NOT NULL,
    is_page boolean NOT NULL,
    segment text,
    url bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);

-- Which leases a call was given, for a caller that did not hear the answer.
CREATE TABLE calls (call text PRIMARY KEY, numbers bigint[] NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What is known of each origin's robots.txt, by the hash of its name: a RobotsCopy, encoded and compressed.
CREATE TABLE robots (origin bigint PRIMARY KEY, copy bytea NOT NULL);
ALTER TABLE robots ALTER COLUMN copy SET STORAGE EXTERNAL;

-- Totals, so that none has to be counted. Every transaction adds a row of what it changed to `deltas`, so that none
-- waits for another; now and then these are folded into `totals`. Only together they mean something.
CREATE TABLE totals (name text PRIMARY KEY, value bigint NOT NULL)
    WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE deltas (names text[] NOT NULL, amounts bigint[] NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE VIEW counts AS
    SELECT name, sum(value)::bigint AS value
    FROM (
        SELECT name, value FROM totals
        UNION ALL
        SELECT delta.name, delta.amount FROM deltas, unnest(names, amounts) AS delta (name, amount)
    ) AS every
    GROUP BY name;

-- Where the entry ends that begins there, in a block of many: its header is 23 bytes, and the length of its URL the
-- first of them, lowest byte first.
CREATE FUNCTION entry_end(urls bytea, begins integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN begins + 23 + get_byte(urls, begins) + (get_byte(urls, begins + 1) << 8) + (get_byte(urls, begins + 2) << 16);

-- The verb `lease`, in one call: what it locks is never held while the caller thinks. Each statement below sees what
-- others had committed when it began, so what is locked comes first and what depends on it is read by the next.
--
-- in_slots, in_epochs: slots in the order in which they are served, with the epochs under which the caller owns them.
-- in_is_late: whether a site is due for long already, and was not given because it was locked each time.
-- The answer: a row for each lease, and a last one without a number that has `next_due_at`.
CREATE FUNCTION lease(
    in_call text,
    in_slots integer[],
    in_epochs bigint[],
    in_limit bigint,
    in_now double precision,
    in_delay_seconds double precision,
    in_max_pages bigint,
    in_is_late boolean
) RETURNS TABLE (
    number bigint,
    slot integer,
    epoch bigint,
    name bytea,
    url bytea,
    last_request_at double precision,
    crawl_delay_seconds double precision,
    failures integer,
    next_due_at double precision
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    var_current integer[];
    var_oldest bigint;
    var_slot integer;
    var_due bigint[];
    var_given bigint := 0;
    var_room bigint := 9223372036854775807;
    var_next_due_at double precision;
BEGIN
    -- Against `own`, which takes the table for itself: a lease comes before it, and is taken back by it, or after it,
    -- and sees its epochs. With a page budget leases come one after the other, too, so that none overdraws it.
    IF in_max_pages > 0 THEN
        LOCK TABLE slots IN SHARE ROW EXCLUSIVE MODE;
    ELSE
        LOCK TABLE slots IN ROW SHARE MODE;
    END IF;
    -- The same call may still be on its way, given up by its caller: then its leases are the answer to this one, too.
    PERFORM pg_advisory_xact_lock(hashtextextended(in_call, 0));

    SELECT array_agg(slots.slot ORDER BY wanted.turn) INTO var_current
    FROM unnest(in_slots, in_epochs) WITH ORDINALITY AS wanted (slot, epoch, turn)
    JOIN slots ON slots.slot = wanted.slot AND slots.epoch = wanted.epoch;

    RETURN QUERY
        SELECT held.number, held.slot, slots.epoch, sites.name, held.url, sites.last_request_at,
            sites.crawl_delay_seconds, sites.failures, NULL::double precision
        FROM calls
        CROSS JOIN unnest(calls.numbers) AS given (number)
        JOIN held ON held.number = given.number AND held.segment IS NULL
        JOIN sites ON sites.key = held.site
        JOIN slots ON slots.slot = held.slot
        WHERE calls.call = in_call;
    GET DIAGNOSTICS var_given = ROW_COUNT;

    IF in_max_pages > 0 THEN
        SELECT greatest(0, in_max_pages - coalesce(sum(counts.value), 0)) INTO var_room
        FROM counts WHERE counts.name IN ('outcome page', 'leased', 'spooled_pages');
    END IF;

    IF var_given = 0 AND var_room > 0 THEN
        -- Sites that are locked are passed over, and a site to which many admit at once is locked almost always. So the
        -- one that waits longest is waited for, now and then, and served first. Nobody waits for us meanwhile: no
        -- other site is locked yet.
        IF in_is_late THEN
            SELECT first.key, wanted.slot INTO var_oldest, var_slot
            FROM unnest(var_current) AS wanted (slot)
            CROSS JOIN LATERAL (
                SELECT sites.key, sites.due_at FROM sites
                WHERE sites.slot = wanted.slot AND sites.due_at <= in_now
                ORDER BY sites.due_at
                LIMIT 1
            ) AS first
            ORDER BY first.due_at
            LIMIT 1;
            IF FOUND THEN
                PERFORM FROM sites WHERE sites.key = var_oldest FOR UPDATE;
                var_current := array_prepend(var_slot, array_remove(var_current, var_slot));
            END IF;
        END IF;

        SELECT array_agg(due.key) INTO var_due
        FROM (
            SELECT site.key
            FROM unnest(var_current) WITH ORDINALITY AS wanted (slot, turn)
            CROSS JOIN LATERAL (
                SELECT sites.key FROM sites
                WHERE sites.slot = wanted.slot AND sites.due_at <= in_now
                ORDER BY sites.due_at
                LIMIT least(in_limit, var_room)
                FOR UPDATE SKIP LOCKED
            ) AS site
            LIMIT least(in_limit, var_room)
        ) AS due;

        RETURN QUERY
            WITH taken AS MATERIALIZED (
                SELECT nextval('numbers') AS number, sites.key, sites.slot, sites.name, sites.last_request_at,
                    sites.crawl_delay_seconds, sites.failures, sites.head,
                    entry_end(blocks.urls, sites.head_offset) AS ends,
                    entry_end(blocks.urls, sites.head_offset) = octet_length(blocks.urls) AS is_used_up,
                    substring(
                        blocks.urls
                        FROM sites.head_offset + 1
                        FOR entry_end(blocks.urls, sites.head_offset) - sites.head_offset
                    ) AS url
                FROM unnest(var_due) AS due (key)
                JOIN sites ON sites.key = due.key
                JOIN blocks ON blocks.site = sites.key AND blocks.place = sites.head
            ),
            leased AS (
                UPDATE sites SET
                    lease = taken.number,
                    not_before_lease = sites.not_before,
                    not_before = in_now + greatest(in_delay_seconds, sites.crawl_delay_seconds),
                    due_at = 'infinity',
                    queued = sites.queued - 1,
                    head = CASE WHEN taken.is_used_up THEN sites.head + 1 ELSE sites.head END,
                    head_offset = CASE WHEN taken.is_used_up THEN 0 ELSE taken.ends END
                FROM taken WHERE sites.key = taken.key
            ),
            used_up AS (
                DELETE FROM blocks USING taken
                WHERE taken.is_used_up AND blocks.site = taken.key AND blocks.place = taken.head
            ),
            kept AS (
                INSERT INTO held (number, site, slot, is_page, url)
                SELECT taken.number, taken.key, taken.slot, false, taken.url FROM taken
            ),
            noted AS (
                INSERT INTO calls SELECT in_call, array_agg(taken.number) FROM taken HAVING count(*) > 0
                ON CONFLICT (call) DO UPDATE SET numbers = excluded.numbers
            ),
            counted AS (
                INSERT INTO deltas
                SELECT '{leased,sites_busy,sites_waiting}', ARRAY[count(*), count(*), -count(*)] FROM taken
                HAVING count(*) > 0
            )
            SELECT taken.number, taken.slot, slots.epoch, taken.name, taken.url, taken.last_request_at,
                taken.crawl_delay_seconds, taken.failures, NULL::double precision
            FROM taken JOIN slots ON slots.slot = taken.slot;
        GET DIAGNOSTICS var_given = ROW_COUNT;
        var_room := var_room - var_given;
    END IF;

    IF var_room > 0 THEN
        SELECT min(first.due_at) INTO var_next_due_at
        FROM unnest(var_current) AS wanted (slot)
        CROSS JOIN LATERAL (
            SELECT sites.due_at FROM sites
            WHERE sites.slot = wanted.slot AND sites.due_at < 'infinity'
            ORDER BY sites.due_at
            LIMIT 1
        ) AS first;
    END IF;
    RETURN QUERY SELECT NULL::bigint, NULL::integer, NULL::bigint, NULL::bytea, NULL::bytea, NULL::double precision,
        NULL::double precision, NULL::integer, var_next_due_at;
END;
$$;
