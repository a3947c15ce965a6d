-- Most of the verb `admit`; the function of that name in the migrations says how, and what the parameters are.
-- Answer: which URLs are new, by their turn, and which sites are left to the caller, by their place.
-- Index: primary keys.
SELECT new_turns, left_places
FROM admit(
    $1::text::bigint[], $2::text::integer[], $3::bytea[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[],
    $7::boolean, $8::text::integer[], $9::text::bigint[], $10::text::bigint[], $11::text::integer[],
    $12::text::integer[], $13::bytea, $14::integer, $15::integer
)
