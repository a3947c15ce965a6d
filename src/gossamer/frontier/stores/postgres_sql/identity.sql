-- What tells this frontier from any other that may ever stand in its place.
-- Answer: a UUID.
SELECT identity FROM meta
