-- Most of the verb `admit`; the function of that name in the migrations says how, and what the parameters are.
-- Answer: which URLs are new, by their turn, and which sites are left to the caller, by their place.
-- Index: primary keys.
SELECT new_turns, left_places
FROM admit(
    $1::text::bigint[], $2::text::integer[], $3::bytea[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[],
    $7::text::bigint[], $8::boolean, $9::text::integer[], $10::text::bigint[], $11::text::bigint[],
    $12::text::integer[], $13::text::integer[], $14::bytea, $15::integer, $16::integer, $17::double precision
)
