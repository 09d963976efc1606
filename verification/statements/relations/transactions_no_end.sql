-- committed, without a time at which it was
-- of: transactions; rests: hanging_transaction, zombie_commit
SELECT lane, producer_id, `transaction` FROM transactions WHERE outcome = 'committed' AND end_ns IS NULL
