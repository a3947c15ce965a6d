"""For whoever writes a store: `model` is the contract in its plainest form, `suite` the checks that a store passes."""
