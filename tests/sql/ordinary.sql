-- works: 1 plain aggregates
SELECT count(*) FROM people
SELECT count(1) AS n FROM people
SELECT count(sex) FROM people
SELECT avg(age) FROM people
SELECT sum(visits) FROM people
SELECT avg(age), sum(visits), count(*) FROM people
SELECT count(*) FROM people AS p WHERE p.age >= 65
SELECT count(*) FROM people p WHERE p.age >= 65 AND p.smoker
SELECT region, count(*) FROM people GROUP BY region
SELECT people.region, count(*) AS n FROM people GROUP BY people.region
SELECT region, sex, count(*) AS n FROM people GROUP BY region, sex
SELECT region, avg(age) AS a FROM people GROUP BY 1
SELECT region r, sum(visits) v FROM people GROUP BY r
SELECT count(*) FILTER (WHERE smoker) AS s FROM people
SELECT region, count(*) FILTER (WHERE age < 30) AS young FROM people GROUP BY region
-- works: 2 sorting and choosing
SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY n DESC
SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY region
SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY 2 DESC LIMIT 2
SELECT TOP 2 region, count(*) AS n FROM people GROUP BY region ORDER BY n DESC
SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY n LIMIT 1 OFFSET 1
SELECT region, count(*) AS n FROM people GROUP BY region HAVING count(*) > 450
SELECT region, count(*) AS n FROM people GROUP BY region HAVING n > 450 ORDER BY n DESC
SELECT region, avg(age) AS a FROM people GROUP BY region HAVING avg(age) > 40 AND count(*) > 10 ORDER BY 1
SELECT DISTINCT region FROM people ORDER BY region
SELECT DISTINCT region, sex FROM people ORDER BY 1, 2
SELECT region FROM people GROUP BY region ORDER BY region DESC
SELECT age, count(*) AS n FROM people GROUP BY age ORDER BY n DESC, age LIMIT 5
SELECT region, sex, count(*) AS n FROM people GROUP BY ALL ORDER BY ALL

-- works: 3 arithmetic and rates
SELECT 100.0 * count(*) FILTER (WHERE smoker) / count(*) AS pct FROM people
SELECT region, round(100.0 * sum(CASE WHEN smoker THEN 1 ELSE 0 END) / count(*), 1) AS pct FROM people GROUP BY region ORDER BY region
SELECT avg(CAST(smoker AS INT)) AS rate FROM people
SELECT avg(CASE WHEN age >= 65 THEN 1.0 ELSE 0.0 END) AS share FROM people
SELECT sum(CASE WHEN smoker THEN 1 ELSE 0 END) AS s, sum(CASE WHEN NOT smoker THEN 1 ELSE 0 END) AS n FROM people
SELECT sum(CASE WHEN sex = 'f' THEN visits ELSE 0 END) AS v FROM people
SELECT count(CASE WHEN smoker THEN 1 END) AS s FROM people
SELECT count_if(age > 50) AS older FROM people
SELECT sum(visits) * 1.0 / count(*) AS per_head FROM people
SELECT region, sum(visits) / NULLIF(count(*), 0) AS per_head FROM people GROUP BY region
SELECT count(*) FILTER (WHERE sex = 'f') - count(*) FILTER (WHERE sex = 'm') AS gap FROM people
SELECT round(avg(age), 2) AS a FROM people
SELECT floor(avg(age)) AS a, ceil(avg(age)) AS b FROM people
SELECT sum(visits * 2) AS twice FROM people
SELECT sum(visits + 1) AS more FROM people
SELECT avg(age / 10) AS decades FROM people
SELECT avg(CAST(age > 40 AS INT)) AS share FROM people
SELECT abs(count(*) FILTER (WHERE smoker) - count(*) FILTER (WHERE NOT smoker)) AS d FROM people
SELECT COALESCE(sum(visits), 0) AS v FROM people
SELECT CAST(count(*) AS DOUBLE) / 2 AS half FROM people
SELECT greatest(count(*) FILTER (WHERE smoker), count(*) FILTER (WHERE NOT smoker)) AS most FROM people
SELECT region, CASE WHEN count(*) > 450 THEN 'large' ELSE 'small' END AS size, count(*) AS n FROM people GROUP BY region
SELECT count(*) / (SELECT count(*) FROM people) AS share FROM people WHERE smoker
SELECT region, count(*) * 1.0 / (SELECT count(*) FROM people) AS share FROM people GROUP BY region
SELECT sum(visits) AS total, total / count(*) AS per_head FROM people
SELECT sum(visits * age) AS v FROM people
SELECT sum(CASE sex WHEN 'f' THEN visits ELSE 0 END) AS f, sum(if(smoker, visits, 0)) AS s FROM people
SELECT CAST(avg(age) AS DECIMAL(6, 2)) AS a FROM people

-- works: 4 groups
SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'middle' ELSE 'old' END AS band, count(*) AS n FROM people GROUP BY band
SELECT age // 10 * 10 AS decade, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT age >= 65 AS old, count(*) AS n FROM people GROUP BY 1
SELECT upper(region) AS r, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT upper(region) AS r, count(*) AS n FROM people GROUP BY region ORDER BY 1
SELECT left(region, 1) AS initial, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT region || '/' || sex AS cell, count(*) AS n FROM people GROUP BY region, sex HAVING sex IS NOT NULL ORDER BY 1
SELECT CASE WHEN smoker THEN 1 ELSE 0 END AS s, count(*) AS n FROM people GROUP BY 1
SELECT CASE sex WHEN 'f' THEN 'woman' WHEN 'm' THEN 'man' ELSE 'unknown' END AS who, count(*) AS n FROM people GROUP BY 1
SELECT COALESCE(sex, 'unknown') AS who, count(*) AS n FROM people GROUP BY 1
SELECT region, count(*) AS n FROM people GROUP BY ALL
SELECT region, sex, count(*) AS n FROM people GROUP BY ROLLUP (region, sex)
SELECT region, smoker, count(*) AS n FROM people GROUP BY CUBE (region, smoker)
SELECT region, smoker, count(*) AS n FROM people GROUP BY GROUPING SETS ((region), (smoker), ())
SELECT region, avg(age) AS a, grouping(region) AS g FROM people GROUP BY ROLLUP (region)
SELECT split_part(region, 't', 1) AS r, count(*) AS n FROM people GROUP BY 1
SELECT upper(region) AS r, left(r, 1) AS i, count(*) AS n FROM people GROUP BY ALL

-- works: 5 windows
SELECT region, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS pct FROM people GROUP BY region
SELECT region, rank() OVER (ORDER BY count(*) DESC) AS r FROM people GROUP BY region
SELECT region, row_number() OVER (ORDER BY region) AS r, count(*) AS n FROM people GROUP BY region
SELECT age // 10 AS d, sum(count(*)) OVER (ORDER BY age // 10) AS running FROM people GROUP BY 1
SELECT region, sex, count(*) * 1.0 / sum(count(*)) OVER (PARTITION BY region) AS share FROM people GROUP BY region, sex
SELECT month(seen) AS m, count(*) AS n, lag(count(*)) OVER (ORDER BY month(seen)) AS before FROM people GROUP BY 1
SELECT month(seen) AS m, count(*) - lag(count(*)) OVER (ORDER BY month(seen)) AS growth FROM people GROUP BY 1 ORDER BY 1
SELECT month(seen) AS m, avg(count(*)) OVER (ORDER BY month(seen) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS smooth FROM people GROUP BY 1
SELECT region, sex, count(*) AS n FROM people GROUP BY region, sex QUALIFY row_number() OVER (PARTITION BY region ORDER BY count(*) DESC) = 1
SELECT region, count(*) - avg(count(*)) OVER () AS off FROM people GROUP BY region
SELECT region, max(count(*)) OVER () AS largest, count(*) AS n FROM people GROUP BY region
-- works: 6 CTEs, subqueries, unions, joins of answers
WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT region, count(*) AS n FROM adults GROUP BY region
WITH g AS (SELECT region, count(*) AS n FROM people GROUP BY region) SELECT region, n FROM g WHERE n > 450
WITH g AS (SELECT region, count(*) AS n FROM people GROUP BY region) SELECT sum(n) AS total, max(n) AS most, min(n) AS least, avg(n) AS mean FROM g
WITH g AS (SELECT region, count(*) AS n FROM people GROUP BY region), t AS (SELECT count(*) AS total FROM people) SELECT g.region, g.n * 100.0 / t.total AS pct FROM g CROSS JOIN t
WITH a AS (SELECT region, count(*) AS n FROM people GROUP BY region), b AS (SELECT region, count(*) AS s FROM people WHERE smoker GROUP BY region) SELECT a.region, b.s * 1.0 / a.n AS rate FROM a JOIN b ON a.region = b.region
WITH a AS (SELECT region, count(*) AS n FROM people GROUP BY region), b AS (SELECT region, avg(age) AS age FROM people GROUP BY region) SELECT region, n, age FROM a JOIN b USING (region)
SELECT region, n FROM (SELECT region, count(*) AS n FROM people GROUP BY region) AS g ORDER BY n DESC LIMIT 1
SELECT avg(n) AS mean FROM (SELECT region, count(*) AS n FROM people GROUP BY region) g
SELECT count(*) AS n FROM (SELECT age, smoker FROM people WHERE age < 30) AS y WHERE smoker
SELECT band, count(*) AS n FROM (SELECT CASE WHEN age < 40 THEN 'a' ELSE 'b' END AS band FROM people) x GROUP BY band
SELECT 'smokers' AS who, count(*) AS n FROM people WHERE smoker UNION ALL SELECT 'others', count(*) FROM people WHERE NOT smoker
SELECT region, count(*) AS n FROM people GROUP BY region UNION ALL SELECT 'all', count(*) FROM people
WITH q AS (SELECT region, count(*) AS n FROM people GROUP BY region) SELECT * FROM q WHERE n > (SELECT avg(n) FROM q)

-- works: 7 moments and quantiles
SELECT var_samp(age) AS v FROM people
SELECT stddev(age) AS s, stddev_pop(age) AS p FROM people
SELECT region, stddev(age) AS s FROM people GROUP BY region
SELECT var_pop(visits) AS v FROM people
SELECT covar_samp(age, visits) AS c FROM people
SELECT covar_pop(age, visits) AS c FROM people
SELECT corr(age, visits) AS r FROM people
SELECT median(age) AS m FROM people
SELECT region, median(age) AS m FROM people GROUP BY region
SELECT quantile_cont(age, 0.9) AS q FROM people
SELECT quantile_disc(age, 0.25) AS q FROM people
SELECT percentile_cont(0.75) WITHIN GROUP (ORDER BY age) AS q FROM people
SELECT percentile_disc(0.1) WITHIN GROUP (ORDER BY visits) AS q FROM people WHERE smoker
SELECT quantile_cont(age, 0.75) - quantile_cont(age, 0.25) AS iqr FROM people
-- works: 8 dates and text
SELECT year(seen) AS y, count(*) AS n FROM people GROUP BY 1
SELECT extract(quarter FROM seen) AS q, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT date_trunc('month', seen) AS m, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT dayname(seen) AS d, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT strftime(seen, '%Y-%m') AS m, count(*) AS n FROM people GROUP BY 1 ORDER BY 1
SELECT date_part('week', seen) AS w, count(*) AS n FROM people GROUP BY 1 ORDER BY n DESC, w LIMIT 3
SELECT count(*) FROM people WHERE seen >= DATE '2024-06-01'
SELECT count(*) FROM people WHERE seen >= DATE '2024-12-31' - INTERVAL 3 MONTH
SELECT count(*) FROM people WHERE extract(month FROM seen) = 3
SELECT count(*) FROM people WHERE seen BETWEEN '2024-02-01' AND '2024-02-29'
SELECT count(*) FROM people WHERE isodow(seen) IN (6, 7)
SELECT count(*) FROM people WHERE region LIKE 'n%'
SELECT count(*) FROM people WHERE lower(region) IN ('north', 'south')
SELECT count(*) FROM people WHERE region NOT LIKE '%th'
SELECT count(*) FROM people WHERE region ILIKE 'NORTH'
SELECT count(*) FROM people WHERE length(region) = 4
SELECT count(*) FROM people WHERE age % 2 = 0
SELECT count(*) FROM people WHERE age + visits > 60
SELECT count(*) FROM people WHERE age BETWEEN 20 AND 29 OR (smoker AND sex = 'f')
SELECT count(*) FROM people WHERE sex IS NULL
SELECT count(*) FROM people WHERE sex IS NOT DISTINCT FROM 'f'
SELECT avg(date_diff('day', seen, DATE '2025-01-01')) AS d FROM people
SELECT date_part('quarter', seen) AS q, dayofweek(seen) IN (0, 6) AS weekend, count(*) AS n FROM people GROUP BY 1, 2

-- refused: with advice
SELECT * FROM people
SELECT age, sex FROM people
SELECT max(age) FROM people
SELECT min(visits), max(visits) FROM people
SELECT count(DISTINCT region) FROM people
SELECT string_agg(region) FROM people
SELECT * FROM people LIMIT 5
SELECT mode(region) FROM people
SELECT count(*) FROM people JOIN other ON people.region = other.region
SELECT count(*) FROM people WHERE age IN (SELECT age FROM people)
INSERT INTO people VALUES (1)
SELECT count(*) FROM people GROUP BY 9
SELECT first(age) FROM people
SELECT count(*) FROM peple
SELECT agee FROM people GROUP BY agee
SELECT count(*) FROM people WHERE nickname = 'x'
SELECT region || count(*) FROM people GROUP BY region
SELECT count(*) FROM people WHERE region = north
SELECT count(*) form people
SELECT kurtosis(age) FROM people
SELECT sum(visits) OVER () FROM people
