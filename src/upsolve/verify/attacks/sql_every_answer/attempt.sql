WITH RECURSIVE f(n, a, b) AS (VALUES (0, 0, 1) UNION ALL SELECT n + 1, b, a + b FROM f WHERE n < 30)
SELECT n, a FROM f
