-- KAFKA-5385: the record is in no log, and its transaction, which was committed without it, was open when records of its
-- producer expired.
SELECT s.number, s.defect
FROM suspected s
JOIN transactions t ON t.lane = s.lane AND t.producer_id = s.producer_id AND t.`transaction` = s.`transaction`
LEFT ANTI JOIN log g ON g.lane = s.lane AND g.producer_id = s.producer_id AND g.seq = s.seq
WHERE s.rule = 'committed_without' AND s.outcome = 'info' AND t.outcome = 'committed'
  AND s.ts_ns BETWEEN t.begin_ns AND t.end_ns
