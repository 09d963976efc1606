-- By group and partition how far members processed and committed (`progress`).
SELECT judged AS lane, `group`, `partition`, processed_to, acknowledged, final
FROM progress
ORDER BY `partition`
