-- By partition in replicas/ the offset below which log and replicas are compared: some broker knows what is below it to be
-- committed; without checkpoints.json, every replica or the log has it.
SELECT lane, `partition`, COALESCE(MAX(mark), GREATEST(COALESCE(MIN(held), 0), COALESCE(MAX(logged), 0))) AS bound
FROM (
  SELECT lane, `partition`, MAX(high_watermark) AS mark, CAST(NULL AS BIGINT) AS held, CAST(NULL AS BIGINT) AS logged
  FROM checkpoints
  GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, NULL, MAX(last) + 1, NULL FROM epochs GROUP BY lane, `partition`, broker
  UNION ALL
  SELECT lane, `partition`, NULL, NULL, MAX(`offset`) + 1 FROM log LEFT SEMI JOIN epochs USING (lane, `partition`)
  GROUP BY lane, `partition`
) q
GROUP BY lane, `partition`
