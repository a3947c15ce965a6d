-- Nobody leases, and nobody else takes slots, until this transaction ends.
LOCK TABLE slots IN EXCLUSIVE MODE
