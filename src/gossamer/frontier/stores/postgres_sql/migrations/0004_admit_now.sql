-- `admit` is given the time, so that sites that get their first URL are due from then on and not from 0, and the most
-- bytes of a queue. Tables are as before.
DROP FUNCTION admit(
    bigint[], integer[], bytea[], bigint[], bigint[], bigint[], boolean, integer[], bigint[], bigint[], integer[],
    integer[], bytea, integer, integer
);

-- Most of the verb `admit`, in one call: what it locks is never held while the caller thinks. It admits to sites that
-- have room for all that is offered, behind their queues, and makes those that are not there. What is to be judged one
-- by one is left to the caller. Each statement below sees what others had committed when it began, so what is locked
-- comes first and what depends on it is read by the next.
--
-- in_sites, in_slots, in_names: sites, sorted by their keys, and what they are made with.
-- in_numbers: how many URLs each is offered. in_repeats: not fewer than the most of these that share a path.
-- in_most_queued: how many its queue may have already, so that all of them have room in it.
-- in_limits: site_urls, path_variants. in_only_seeded: whether sites that are not seeded are left.
-- in_places: of each URL, the place of its site in in_sites; of one site they stand together. in_fingerprints, in_paths:
-- of each URL, none of them twice; a path of 0 is none. in_begins, in_lengths: where its entry is in in_entries.
-- block_bytes: a block is cut where it has so many. small_bytes: a last block takes more until it has so many.
-- The answer: which URLs are new, by their turn from 1, and which sites are left, by their place from 1.
CREATE FUNCTION admit(
    in_sites bigint[],
    in_slots integer[],
    in_names bytea[],
    in_numbers bigint[],
    in_repeats bigint[],
    in_most_queued bigint[],
    in_limits bigint[],
    in_only_seeded boolean,
    in_places integer[],
    in_fingerprints bigint[],
    in_paths bigint[],
    in_begins integer[],
    in_lengths integer[],
    in_entries bytea,
    block_bytes integer,
    small_bytes integer,
    in_now double precision,
    OUT new_turns integer[],
    OUT left_places integer[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    var_is_open boolean[] := array_fill(false, ARRAY[cardinality(in_sites)]);
    var_open integer[];
    var_large integer[];
    var_made integer[];
BEGIN
    -- A site that has fewer URLs than a path may have variants has room for all of them.
    SELECT array_agg(locked.place), array_agg(locked.place) FILTER (
            WHERE in_repeats[locked.place] > 0 AND locked.admitted + in_numbers[locked.place] > in_limits[2]
        ) INTO var_open, var_large
    FROM (
        SELECT array_position(in_sites, key) AS place, admitted, queued, dropped, is_seeded
        FROM sites
        WHERE key = ANY (in_sites)
        ORDER BY key
        FOR UPDATE
    ) AS locked
    WHERE locked.dropped IS NULL
        AND (locked.is_seeded OR NOT in_only_seeded)
        AND locked.queued <= in_most_queued[locked.place]
        AND locked.admitted + in_numbers[locked.place] <= in_limits[1];

    -- Locks come before, as everywhere: whoever makes one that another is making waits for that one, which then waits
    -- for nobody. None is made that would stay empty. One that somebody else has made meanwhile is left to the caller.
    IF NOT in_only_seeded THEN
        WITH made AS (
            INSERT INTO sites (
                key, slot, name, not_before, not_before_lease, last_request_at, crawl_delay_seconds, lease, admitted,
                queued, head, tail, head_offset, tail_bytes, failures, is_seeded
            )
            SELECT given.key, given.slot, given.name, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, false
            FROM unnest(in_sites, in_slots, in_names, in_numbers, in_repeats, in_most_queued)
                AS given (key, slot, name, number, repeats, most_queued)
            WHERE given.most_queued >= 0 AND given.number <= in_limits[1] AND given.repeats <= in_limits[2]
                AND NOT EXISTS (SELECT FROM sites WHERE sites.key = given.key)
            ORDER BY given.key
            ON CONFLICT DO NOTHING
            RETURNING key
        ),
        counted AS (
            INSERT INTO deltas SELECT '{sites}', ARRAY[count(*)] FROM made HAVING count(*) > 0
        )
        SELECT array_agg(array_position(in_sites, key)) INTO var_made FROM made;
    END IF;

    FOR i IN 1..coalesce(cardinality(var_open), 0) LOOP
        var_is_open[var_open[i]] := true;
    END LOOP;
    FOR i IN 1..coalesce(cardinality(var_made), 0) LOOP
        var_is_open[var_made[i]] := true;
    END LOOP;

    IF var_large IS NOT NULL THEN
        FOR i IN 1..cardinality(var_large) LOOP
            IF in_repeats[var_large[i]] > in_limits[2] THEN
                var_is_open[var_large[i]] := false;
            END IF;
        END LOOP;
        SELECT array_agg(DISTINCT given.place) INTO var_large
        FROM unnest(in_places, in_paths) AS given (place, path)
        JOIN variants ON variants.site = in_sites[given.place] AND variants.path = given.path
        WHERE given.path <> 0 AND given.place = ANY (var_large)
            AND variants.number + in_repeats[given.place] > in_limits[2];
        FOR i IN 1..coalesce(cardinality(var_large), 0) LOOP
            var_is_open[var_large[i]] := false;
        END LOOP;
    END IF;

    WITH new AS MATERIALIZED (
        SELECT given.turn::integer AS turn, in_sites[given.place] AS site, given.fingerprint, given.path, given.begins,
            given.length,
            sum(given.length) OVER (PARTITION BY given.place ORDER BY given.turn) - given.length AS before
        FROM unnest(in_places, in_fingerprints, in_paths, in_begins, in_lengths) WITH ORDINALITY
            AS given (place, fingerprint, path, begins, length, turn)
        WHERE var_is_open[given.place] AND NOT EXISTS (
            SELECT FROM seen WHERE seen.site = in_sites[given.place] AND seen.fingerprint = given.fingerprint
        )
    ),
    marked AS (
        INSERT INTO seen (site, fingerprint) SELECT site, fingerprint FROM new
    ),
    counted_paths AS (
        INSERT INTO variants (site, path, number)
        SELECT site, path, count(*) FROM new WHERE path <> 0 GROUP BY site, path
        ON CONFLICT (site, path) DO UPDATE SET number = variants.number + excluded.number
    ),
    cut AS (
        SELECT site, before / block_bytes AS piece, count(*) AS number, sum(length) AS bytes,
            string_agg(substring(in_entries FROM begins + 1 FOR length), '' ORDER BY turn) AS urls
        FROM new GROUP BY site, before / block_bytes
    ),
    pieces AS (
        SELECT site, urls, bytes,
            row_number() OVER (PARTITION BY site ORDER BY piece) AS nth,
            count(*) OVER whole AS pieces, sum(number) OVER whole AS number, sum(bytes) OVER whole AS all_bytes
        FROM cut WINDOW whole AS (PARTITION BY site)
    ),
    placed AS MATERIALIZED (
        SELECT pieces.*, sites.tail, sites.due_at, sites.due_at IS NULL AS is_first,
            sites.head <= sites.tail AND sites.tail_bytes + pieces.all_bytes <= small_bytes AS is_grown
        FROM pieces JOIN sites ON sites.key = pieces.site
    ),
    new_blocks AS (
        INSERT INTO blocks (site, place, urls) SELECT site, tail + nth, urls FROM placed WHERE NOT is_grown
    ),
    grown_blocks AS (
        UPDATE blocks SET urls = blocks.urls || placed.urls
        FROM placed WHERE placed.is_grown AND blocks.site = placed.site AND blocks.place = placed.tail
    ),
    queued AS (
        UPDATE sites SET
            queued = sites.queued + placed.number,
            admitted = sites.admitted + placed.number,
            tail = sites.tail + CASE WHEN placed.is_grown THEN 0 ELSE placed.pieces END,
            tail_bytes = placed.bytes + CASE WHEN placed.is_grown THEN sites.tail_bytes ELSE 0 END,
            not_before = CASE WHEN placed.is_first THEN greatest(sites.not_before, in_now) ELSE sites.not_before END,
            due_at = CASE
                WHEN sites.lease <> 0 THEN 'infinity'
                WHEN placed.is_first THEN greatest(sites.not_before, in_now)
                ELSE sites.not_before
            END
        FROM placed WHERE placed.nth = placed.pieces AND sites.key = placed.site
    ),
    counted AS (
        INSERT INTO deltas
        SELECT '{admitted,sites_waiting}', ARRAY[sum(number), count(*) FILTER (WHERE due_at IS NULL)]
        FROM placed WHERE nth = pieces HAVING count(*) > 0
    )
    SELECT array_agg(turn) INTO new_turns FROM new;

    left_places := array_positions(var_is_open, false);
END;
$$;
