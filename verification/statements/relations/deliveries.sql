-- of: deliveries
SELECT
  d.lane, d.`partition`, d.`offset`,
  s.lane IS NULL AS `of a lane without a share group`, -- rests: none
  d.delivered_ns < p.invoke_ns AS `given to a member before the record was sent`,
  LEAST(d.asked_ns, d.delivered_ns) < l.begun_ns OR (l.planned = 1 AND d.delivered_ns > l.ended_ns)
    AS `asked for or given to a member before the run began, or given after its phase had ended`,
  (d.acknowledgement IS NULL) <> (d.outcome IS NULL) OR (d.acknowledgement IS NULL) <> (d.invoke_ns IS NULL)
    OR (d.outcome <> 'info' AND d.complete_ns IS NULL) OR (d.outcome = 'ok' AND d.error IS NOT NULL)
    AS `acknowledged without a time or an outcome, answered without either, or acknowledged with an error`, -- rests: of_shares
  -- Where nothing that was committed gets lost, the log holds what it held when members were given it.
  g.lane IS NULL AND l.final_log = 1 AND l.lossless = 1 AND l.cleaned = 0
    AS `of a record that the log does not hold at its offset` -- rests: never_delivered, archived_early, dead_letter_missing
FROM deliveries d
JOIN lanes l USING (lane)
LEFT JOIN shares s USING (lane)
LEFT JOIN log g USING (lane, `partition`, `offset`, producer_id, seq)
LEFT JOIN produced p USING (lane, producer_id, seq)
