-- committed, with an error
-- of: transactions; rests: hanging_transaction, zombie_commit, of_log
SELECT lane, producer_id, `transaction` FROM transactions WHERE outcome = 'committed' AND error IS NOT NULL
