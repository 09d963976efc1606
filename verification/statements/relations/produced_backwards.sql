-- answered before it was sent
-- of: produced; rests: zombie_commit, hanging_transaction
SELECT lane, producer_id, backwards AS n FROM sends_by_transaction WHERE backwards > 0
