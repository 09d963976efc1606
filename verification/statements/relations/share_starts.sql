-- of: share_starts; rests: of_shares
SELECT
  s.lane, s.member, s.`partition`, s.`offset`,
  l.final_log = 1 AND l.lossless = 1 AND s.`offset` > COALESCE(e.last, -1) + 1 AS `a start offset past the end of the log`,
  s.invoke_ns < l.begun_ns OR (l.planned = 1 AND s.complete_ns > l.ended_ns)
    AS `told before the run began, or after its phase had ended`
FROM share_starts s
JOIN lanes l USING (lane)
LEFT JOIN log_ends e USING (lane, `partition`)
