-- A leader reported a lower high watermark than before within one leader epoch.
-- unit: reports
-- row: the reported high watermark
SELECT
  lane, `partition`, high_watermark AS `offset`, 'leader epoch ' || leader_epoch || ', before: ' || previous AS cause
FROM (
  SELECT
    *,
    LAG(high_watermark) OVER (PARTITION BY lane, `partition`, leader_epoch ORDER BY ts_ns, number) AS previous
  FROM leader_reports
) q
WHERE high_watermark < previous
