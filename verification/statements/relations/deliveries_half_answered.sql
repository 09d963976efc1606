-- acknowledged without a time or an outcome, answered without either, or acknowledged with an error
-- of: deliveries; rests: of_shares
SELECT d.lane, d.`partition`, d.`offset`
FROM deliveries d
WHERE (d.acknowledgement IS NULL) <> (d.outcome IS NULL) OR (d.acknowledgement IS NULL) <> (d.invoke_ns IS NULL)
  OR (d.outcome <> 'info' AND d.complete_ns IS NULL) OR (d.outcome = 'ok' AND d.error IS NOT NULL)
