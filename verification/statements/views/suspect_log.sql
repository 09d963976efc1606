-- The rows of the log of suspects (`suspect_sends`), and of what nobody produced; in a small run, all.
SELECT lane, `partition`, `offset`, producer_id, seq FROM doubtful_log
UNION ALL
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
LEFT SEMI JOIN displaced p USING (lane, producer_id, seq)
LEFT ANTI JOIN doubtful_words d ON d.lane = g.lane AND d.`partition` = g.`partition` AND d.word = g.`offset` DIV 32
