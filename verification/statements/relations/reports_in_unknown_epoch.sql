-- a high watermark of a leader epoch that checkpoints.json does not have
-- of: events.jsonl; rests: high_watermark_regression
SELECT DISTINCT r.lane, r.`partition`, r.leader_epoch
FROM leader_reports r
JOIN (SELECT lane, `partition`, MAX(leader_epoch) AS newest FROM chains GROUP BY lane, `partition`) c
  USING (lane, `partition`)
WHERE r.leader_epoch > c.newest
