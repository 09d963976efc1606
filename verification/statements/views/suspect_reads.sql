-- The reads of suspects (`suspect_sends`), and of what nobody produced; in a small run, all.
SELECT lane, consumer, `partition`, `offset`, producer_id, seq FROM doubtful_reads
UNION ALL
SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq
FROM consumed c
LEFT SEMI JOIN displaced p USING (lane, producer_id, seq)
LEFT ANTI JOIN doubtful_words d ON d.lane = c.lane AND d.`partition` = c.`partition` AND d.word = c.`offset` DIV 32
