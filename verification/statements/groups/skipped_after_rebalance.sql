-- The group has committed past a record that it was to be given, and no member was given it.
--
-- Counted in identities; the row names the lowest place.
--
-- unit: identity
-- tables: passed
-- needs: log
SELECT
  lane, first.`partition` AS `partition`, first.`offset` AS `offset`, producer_id, seq, 'group ' || first.`group` AS cause
FROM (
  SELECT judged AS lane, producer_id, seq, MIN(STRUCT(`partition`, `offset`, `group`)) AS first
  FROM passed
  WHERE NOT is_processed
  GROUP BY judged, producer_id, seq
) q
