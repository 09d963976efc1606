-- The words of a consumer (`read_words`) whose reads are examined one by one: they were not one after another, without a read
-- of another word or a phantom among them, or begin no higher than something that it had read before. If the consumer did
-- not read an offset between the first and the last, also those in which something is in doubt (`doubtful_words`), or if
-- any of its words of the partition is out of order: when it passed that offset matters then.
SELECT lane, consumer, `partition`, word
FROM (
  SELECT *, MAX(is_disordered) OVER (PARTITION BY lane, consumer, `partition`) AS is_any_disordered
  FROM (
    SELECT
      q.*, d.word IS NOT NULL AS is_doubtful,
      CASE
        WHEN q.is_in_order AND COALESCE(q.previous_ns < q.first_ns AND q.lowest > q.previous, TRUE)
          AND COALESCE(q.next_ns > q.last_ns, TRUE) AND p.word IS NULL THEN 0 ELSE 1
      END AS is_disordered
    FROM (
      SELECT
        *, MAX(last_ns) OVER earlier AS previous_ns, MAX(highest) OVER earlier AS previous,
        LEAD(first_ns) OVER (PARTITION BY lane, consumer, `partition` ORDER BY first_ns, word) AS next_ns
      FROM read_words
      WINDOW earlier AS (
        PARTITION BY lane, consumer, `partition` ORDER BY first_ns, word ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      )
    ) q
    LEFT JOIN (SELECT DISTINCT lane, `partition`, `offset` DIV 32 AS word FROM phantoms) p
      ON p.lane = q.lane AND p.`partition` = q.`partition` AND p.word = q.word
    LEFT JOIN doubtful_words d ON d.lane = q.lane AND d.`partition` = q.`partition` AND d.word = q.word
  ) q
) q
WHERE is_disordered = 1 OR (n <= highest - lowest AND (is_doubtful OR is_any_disordered = 1))
