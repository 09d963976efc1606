-- Per producer and partition, in offset order, first occurrences are not in `seq` order.
--
-- Several records at one offset count in the order of `seq`. The records in a word, 32 offsets, count as one, from the
-- first to the last, if they are in order (`log_words`).
-- unit: descents between neighbours
-- row: the record after the descent
SELECT lane, `partition`, `offset`, producer_id, seq, 'after seq ' || previous AS cause
FROM (
  SELECT
    *,
    LAG(last_seq) OVER (PARTITION BY lane, `partition`, producer_id ORDER BY `offset`, seq) AS previous
  FROM (
    SELECT lane, `partition`, producer_id, seq, seq AS last_seq, MIN(`offset`) AS `offset`
    FROM stored
    GROUP BY lane, `partition`, producer_id, seq
    UNION ALL
    SELECT g.lane, g.`partition`, g.producer_id, g.seq, g.seq, g.`offset`
    FROM log g
    LEFT SEMI JOIN uneven_words u ON u.lane = g.lane AND u.`partition` = g.`partition` AND u.word = g.`offset` DIV 32
    LEFT ANTI JOIN suspect_log USING (lane, `partition`, `offset`, producer_id, seq)
    UNION ALL
    SELECT w.lane, w.`partition`, w.producer_id, w.first_seq, w.last_seq, w.first
    FROM log_words w
    LEFT ANTI JOIN uneven_words u USING (lane, `partition`, word)
    WHERE w.stored > 0
  ) q
) q
WHERE seq < previous
