-- No member of the group processed a record, although the committed offset is past it.
--
-- unit: identities
-- row: its lowest place
-- needs: log
SELECT
  lane, first.`partition` AS `partition`, first.`offset` AS `offset`, producer_id, seq, 'group ' || first.`group` AS cause
FROM (
  SELECT judged AS lane, producer_id, seq, MIN(STRUCT(`partition`, `offset`, `group`)) AS first
  FROM passed
  WHERE NOT is_processed
  GROUP BY judged, producer_id, seq
) q
