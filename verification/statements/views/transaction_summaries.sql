-- Each transaction of produced/. `outcome`: what its producer was told, `committed`, `aborted` or `info` (also if
-- transactions/ lacks it). `sent`: its records that may have been written, those whose outcome is not `fail`;
-- `committed`: how many of these are committed in the final log. `first_seq`: its first record; `first_sent`: the first
-- one of `sent`; `first_lacking`: the first one of `sent` that is not committed. `sent_ns`: when the last record was
-- sent; `last_ns`: when its producer last sent or heard of one; `asked_ns`: its commit (by its end), or `sent_ns`.
--
-- The numbers of a block (`sent_blocks`) are bits: the lowest of `x` is BIT_COUNT((x & -x) - 1).
SELECT
  b.lane, b.producer_id, b.`transaction`, COALESCE(MAX(t.outcome), 'info') AS outcome,
  MAX(t.transactional_id) AS transactional_id, MAX(b.last_ns) AS sent_ns, MAX(b.heard_ns) AS last_ns,
  COALESCE(MAX(CASE WHEN t.commit_ns > t.end_ns THEN t.end_ns ELSE t.commit_ns END), MAX(b.last_ns)) AS asked_ns,
  CAST(SUM(BIT_COUNT(b.sent)) AS BIGINT) AS sent,
  CAST(SUM(BIT_COUNT(b.sent) - BIT_COUNT(b.lacking)) AS BIGINT) AS committed,
  MIN(b.first_seq) AS first_seq,
  MIN(CASE WHEN b.sent <> 0 THEN 32 * b.block + BIT_COUNT((b.sent & -b.sent) - 1) END) AS first_sent,
  MIN(CASE WHEN b.lacking <> 0 THEN 32 * b.block + BIT_COUNT((b.lacking & -b.lacking) - 1) END) AS first_lacking
FROM (
  SELECT s.*, s.sent & ~COALESCE(c.numbers, CAST(0 AS BIGINT)) AS lacking
  FROM sent_blocks s
  JOIN lanes l ON l.lane = s.lane AND l.is_transactional = 1
  LEFT JOIN (
    SELECT lane, producer_id, `transaction`, block, BIT_OR(bit) AS numbers
    FROM written
    WHERE fate = 'commit'
    GROUP BY lane, producer_id, `transaction`, block
  ) c ON c.lane = s.lane AND c.producer_id = s.producer_id AND c.`transaction` = s.`transaction` AND c.block = s.block
  WHERE s.`transaction` IS NOT NULL
) b
LEFT JOIN transactions t USING (lane, producer_id, `transaction`)
GROUP BY b.lane, b.producer_id, b.`transaction`
