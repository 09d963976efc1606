-- Every row of produced/ with what it means that its producer was told `told`.
--
-- A record of a transaction may not be written though its producer was told `ok`, and may be written though it was told
-- `fail`: its outcome is in doubt (`info`) if it failed and its transaction was aborted, and without a final log also if
-- its transaction is not known to be committed. `acknowledged`: it is `ok` and names a place; `claimed`: it is in doubt
-- and names one. `ended`: how its transaction did.
-- keep: no
SELECT
  q.*,
  q.outcome = 'ok' AND q.`partition` IS NOT NULL AND q.`offset` IS NOT NULL AS acknowledged,
  q.outcome = 'info' AND q.told <> 'fail' AND q.`partition` IS NOT NULL AND q.`offset` IS NOT NULL AS claimed
FROM (
  SELECT
    p.lane, p.producer_id, p.seq, p.`partition`, p.`offset`, p.`transaction`, p.invoke_ns, p.complete_ns,
    p.outcome AS told, p.key, p.tombstone, t.outcome AS ended,
    CASE
      WHEN p.`transaction` IS NULL OR l.is_transactional = 0 THEN p.outcome
      WHEN p.outcome = 'fail' AND t.outcome = 'aborted' THEN 'info'
      WHEN p.outcome = 'ok' AND l.final_log = 0 AND COALESCE(t.outcome, 'info') <> 'committed' THEN 'info'
      ELSE p.outcome
    END AS outcome
  FROM produced p
  JOIN lanes l USING (lane)
  LEFT JOIN transactions t USING (lane, producer_id, `transaction`)
) q
