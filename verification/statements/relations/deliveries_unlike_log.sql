-- of a record that the log does not hold at its offset
--
-- Where nothing that was committed gets lost, the log holds at each offset what it held when members were given it.
-- of: deliveries; rests: never_delivered, archived_early, dead_letter_missing
SELECT d.lane, d.`partition`, d.`offset`
FROM deliveries d
JOIN lanes l USING (lane)
LEFT ANTI JOIN log g USING (lane, `partition`, `offset`, producer_id, seq)
WHERE l.final_log = 1 AND l.lossless = 1 AND l.cleaned = 0
