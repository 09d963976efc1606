-- read past the end of the log
-- of: consumed
SELECT r.lane, r.consumer, r.`partition`
FROM reads_by_partition r
JOIN lanes l USING (lane)
JOIN log_ends e USING (lane, `partition`)
WHERE r.last > e.last AND l.lossless = 1 AND l.cleaned = 0
