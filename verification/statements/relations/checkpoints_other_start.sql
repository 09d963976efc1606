-- a leader epoch that begins elsewhere by another broker, or by its election
-- of: checkpoints.json; rests: replica_divergence
SELECT a.lane, a.`partition`, a.leader_epoch
FROM (
  SELECT
    lane, `partition`, leader_epoch, MIN(CASE WHEN is_elected = 0 THEN first END) AS lowest,
    MAX(CASE WHEN is_elected = 0 THEN first END) AS highest, MIN(CASE WHEN is_elected = 1 THEN first END) AS elected
  FROM starts
  GROUP BY lane, `partition`, leader_epoch
) a
JOIN lanes l ON l.lane = a.lane
WHERE l.cleaned = 0 AND (a.lowest <> a.highest OR a.elected <> a.lowest)
