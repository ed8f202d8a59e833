WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000)
SELECT count(*), sum(a.x * b.x * c.x * d.x) FROM n a, n b, n c, n d
