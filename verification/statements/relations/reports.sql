-- of: events.jsonl; rests: high_watermark_regression
SELECT
  r.lane, r.`partition`, r.leader_epoch, r.high_watermark,
  r.leader_epoch > c.newest AS `a high watermark of a leader epoch that checkpoints.json does not have`,
  r.high_watermark > e.last + 1 AND l.lossless = 1 AND l.cleaned = 0 AND (l.is_transactional = 0 OR h.lane IS NOT NULL)
    AS `a high watermark past the end of the log`
FROM leader_reports r
JOIN lanes l USING (lane)
LEFT JOIN (SELECT lane, `partition`, MAX(leader_epoch) AS newest FROM chains GROUP BY lane, `partition`) c
  USING (lane, `partition`)
LEFT JOIN log_ends e USING (lane, `partition`)
LEFT JOIN (SELECT DISTINCT lane, `partition` FROM epochs) h ON h.lane = r.lane AND h.`partition` = r.`partition`
