SELECT '{"test": 0, "start": 0, "end": 0}' || char(10), '{"done": true}' UNION ALL SELECT '{"test": 1, "start": 0, "end": 18}', NULL
