-- a high watermark past the end of the log
-- of: events.jsonl; rests: high_watermark_regression
SELECT r.lane, r.`partition`, MAX(r.high_watermark) AS `offset`
FROM leader_reports r
JOIN lanes l USING (lane)
JOIN log_ends e USING (lane, `partition`)
LEFT JOIN (SELECT DISTINCT lane, `partition` FROM epochs) h ON h.lane = r.lane AND h.`partition` = r.`partition`
WHERE r.high_watermark > e.last + 1 AND l.lossless = 1 AND l.cleaned = 0
  AND (l.is_transactional = 0 OR h.lane IS NOT NULL)
GROUP BY r.lane, r.`partition`, r.leader_epoch
