-- of: dead_letters
SELECT
  d.lane, d.`partition`, d.`offset`,
  COALESCE(s.letters, 0) = 0 AS `of a lane without dead letters`, -- rests: none
  COUNT(*) > 1 AS `one that was read twice` -- rests: dead_letter_altered
FROM dead_letters d
LEFT JOIN shares s USING (lane)
GROUP BY d.lane, d.`partition`, d.`offset`, s.letters
