-- The preconditions of known defects: those that events report, and for KAFKA-14397 each record that failed in a lane which
-- the defect concerns (a row without a time says so). `rule`: the statement in defects/ that says what the defect explains.
SELECT lane, defect, rule, ts_ns, producer_id, `partition`, transactional_id, commits, messages
FROM preconditions
WHERE ts_ns IS NOT NULL
UNION ALL
SELECT m.lane, m.defect, m.rule, p.complete_ns, p.producer_id, p.`partition`, NULL, NULL, NULL
FROM preconditions m
JOIN produced p USING (lane)
WHERE m.ts_ns IS NULL AND p.outcome = 'info' AND p.complete_ns IS NOT NULL AND p.error <> ''
