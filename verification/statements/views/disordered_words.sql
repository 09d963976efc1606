-- The words of a consumer (`read_words`) whose reads were not one after another, without a read of another word or a phantom
-- among them, or which begin no higher than something that it had read before.
SELECT q.lane, q.consumer, q.`partition`, q.word
FROM (
  SELECT
    *,
    MAX(last_ns) OVER (
      PARTITION BY lane, consumer, `partition` ORDER BY first_ns, word ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS previous_ns,
    LEAD(first_ns) OVER (PARTITION BY lane, consumer, `partition` ORDER BY first_ns, word) AS next_ns,
    MAX(highest) OVER (
      PARTITION BY lane, consumer, `partition` ORDER BY first_ns, word ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS previous
  FROM read_words
) q
LEFT JOIN (SELECT DISTINCT lane, `partition`, `offset` DIV 32 AS word FROM phantoms) p
  ON p.lane = q.lane AND p.`partition` = q.`partition` AND p.word = q.word
WHERE NOT q.is_in_order OR q.previous_ns >= q.first_ns OR q.next_ns <= q.last_ns OR q.lowest <= q.previous OR p.word IS NOT NULL
