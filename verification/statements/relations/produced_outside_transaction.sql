-- sent before its transaction began, or after it ended
-- of: produced; rests: zombie_commit, hanging_transaction
SELECT t.lane, t.producer_id, t.`transaction`, s.n
FROM transactions t
JOIN sends_by_transaction s USING (lane, producer_id, `transaction`)
WHERE s.first_ns < t.begin_ns OR s.last_ns > t.end_ns
