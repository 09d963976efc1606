-- a leader epoch that begins elsewhere by another broker, or by its election
-- of: checkpoints.json; rests: replica_divergence
--
-- A leader that was down and is back before anybody noticed begins its epoch once more, with what is left of its log.
SELECT a.lane, a.`partition`, a.leader_epoch
FROM (
  SELECT
    lane, `partition`, leader_epoch, lowest, MAX(CASE WHEN is_elected = 0 THEN first END) AS highest,
    MAX(is_elected) AS elections, MAX(CASE WHEN is_elected = 1 AND first = lowest THEN 1 ELSE 0 END) AS matching
  FROM (
    SELECT
      lane, `partition`, leader_epoch, first, is_elected,
      MIN(CASE WHEN is_elected = 0 THEN first END) OVER (PARTITION BY lane, `partition`, leader_epoch) AS lowest
    FROM starts
  ) s
  WHERE lowest IS NOT NULL
  GROUP BY lane, `partition`, leader_epoch, lowest
) a
JOIN lanes l USING (lane)
WHERE l.cleaned = 0 AND (a.lowest <> a.highest OR a.elections > a.matching)
