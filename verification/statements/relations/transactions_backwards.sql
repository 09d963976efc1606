-- begun before its producer was initialised, or ended before it began
-- of: transactions; rests: hanging_transaction, zombie_commit
SELECT lane, producer_id, `transaction` FROM transactions WHERE initialised_ns > begin_ns OR end_ns < begin_ns
