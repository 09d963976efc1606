-- A consumer read it, the final log lacks it.
--
-- unit: identities
-- row: where it was read first
-- needs: log
SELECT lane, producer_id, seq, first_read.`partition` AS `partition`, first_read.`offset` AS `offset`
FROM records
WHERE first_read IS NOT NULL AND first_stored IS NULL
