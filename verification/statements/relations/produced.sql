-- of: produced
SELECT
  s.lane, s.producer_id, s.n,
  s.first_ns < l.begun_ns AS `sent before the run began`,
  s.last_ns > l.ended_ns AS `sent after its phase had ended`,
  l.planned = 1 AND s.answered_ns > l.ended_ns AS `answered after its phase had ended`,
  l.is_transactional = 0 AND s.`transaction` IS NOT NULL AS `in a transaction, though the lane has none`,
  l.is_transactional = 1 AND s.`transaction` IS NULL
    AS `in no transaction, though the lane has them`, -- rests: of_log, of_reads
  l.loop = 0 AND s.sources > 0 AS `made of an input, though the lane is no loop's`,
  s.first_ns < t.begin_ns OR s.last_ns > t.end_ns
    AS `sent before its transaction began, or after it ended` -- rests: zombie_commit, hanging_transaction
FROM sends_by_transaction s
JOIN lanes l USING (lane)
LEFT JOIN transactions t USING (lane, producer_id, `transaction`)
