-- The places at which acknowledgements, reads and the log show produced records in doubt. The place that an outcome in doubt names
-- counts only once its record was read or is in the log.
SELECT lane, `partition`, `offset`, producer_id, seq FROM stored
UNION ALL
SELECT lane, `partition`, `offset`, producer_id, seq FROM reads
UNION ALL
SELECT lane, `partition`, `offset`, producer_id, seq
FROM records
WHERE acknowledged OR (claimed AND COALESCE(first_stored, first_read) IS NOT NULL)
