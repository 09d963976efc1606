-- The rows of the log of records that are no suspects (`suspect_sends`); in a small run, none.
--
-- keep: no
SELECT g.lane, g.`partition`, g.`offset`, g.producer_id, g.seq
FROM log g
LEFT ANTI JOIN displaced p USING (lane, producer_id, seq)
LEFT ANTI JOIN doubtful_words d ON d.lane = g.lane AND d.`partition` = g.`partition` AND d.word = g.`offset` DIV 32
