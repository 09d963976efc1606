-- The reads of produced records in the order of polling, at one moment by offset and identity: ranges that were read one
-- after the other (`offset` to `last`, a word of 32 offsets, without producer and number), and single reads, of words that
-- are out of order (`disordered_words`). With the offset that the consumer read before in the partition, when, and the
-- lowest that it had read by then. Left out are those in the middle of a longer range.
SELECT lane, consumer, `partition`, `offset`, last, producer_id, seq, poll_ns, previous, previous_ns, lowest
FROM (
  SELECT
    *, LAG(last) OVER in_turn AS previous, LAG(last_ns) OVER in_turn AS previous_ns, LEAD(`offset`) OVER in_turn AS next,
    MIN(`offset`) OVER (
      PARTITION BY lane, consumer, `partition` ORDER BY poll_ns, `offset`, producer_id, seq
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS lowest
  FROM (
    SELECT
      w.lane, w.consumer, w.`partition`, w.lowest AS `offset`, w.highest AS last, w.first_ns AS poll_ns, w.last_ns,
      CAST(NULL AS INT) AS producer_id, CAST(NULL AS BIGINT) AS seq
    FROM read_words w
    LEFT ANTI JOIN disordered_words d USING (lane, consumer, `partition`, word)
    UNION ALL
    SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.`offset`, c.poll_ns, c.poll_ns, c.producer_id, c.seq
    FROM consumed c
    LEFT SEMI JOIN disordered_words d
      ON d.lane = c.lane AND d.consumer = c.consumer AND d.`partition` = c.`partition` AND d.word = c.`offset` DIV 32
    LEFT ANTI JOIN phantoms p USING (lane, producer_id, seq)
  ) q
  WINDOW in_turn AS (PARTITION BY lane, consumer, `partition` ORDER BY poll_ns, `offset`, producer_id, seq)
) q
WHERE previous IS NULL OR next IS NULL OR `offset` <> previous + 1 OR next <> last + 1 OR poll_ns = previous_ns
