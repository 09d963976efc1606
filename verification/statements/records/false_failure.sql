-- Outcome `fail`, yet in the log or read.
-- unit: identities
-- row: its first position
SELECT lane, producer_id, seq, COALESCE(first_stored, first_read) AS place
FROM records
WHERE outcome = 'fail' AND COALESCE(first_stored, first_read) IS NOT NULL
