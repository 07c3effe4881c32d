-- Sales of each weekday, store and week, compared with those a year later.
WITH sales AS (
    SELECT
        d_week_seq AS week_seq,
        ss_store_sk,
        SUM(CASE WHEN d_day_name = 'Sunday' THEN ss_sales_price END) AS sun_sales,
        SUM(CASE WHEN d_day_name = 'Monday' THEN ss_sales_price END) AS mon_sales,
        SUM(CASE WHEN d_day_name = 'Tuesday' THEN ss_sales_price END) AS tue_sales,
        SUM(CASE WHEN d_day_name = 'Wednesday' THEN ss_sales_price END) AS wed_sales,
        SUM(CASE WHEN d_day_name = 'Thursday' THEN ss_sales_price END) AS thu_sales,
        SUM(CASE WHEN d_day_name = 'Friday' THEN ss_sales_price END) AS fri_sales,
        SUM(CASE WHEN d_day_name = 'Saturday' THEN ss_sales_price END) AS sat_sales
    FROM store_sales
    JOIN date_dim ON d_date_sk = ss_sold_date_sk
    GROUP BY d_week_seq, ss_store_sk
)
SELECT
    this_year.s_store_name,
    this_year.s_store_id,
    this_year.week_seq,
    this_year.sun_sales / next_year.sun_sales AS sun_ratio,
    this_year.mon_sales / next_year.mon_sales AS mon_ratio,
    this_year.tue_sales / next_year.tue_sales AS tue_ratio,
    this_year.wed_sales / next_year.wed_sales AS wed_ratio,
    this_year.thu_sales / next_year.thu_sales AS thu_ratio,
    this_year.fri_sales / next_year.fri_sales AS fri_ratio,
    this_year.sat_sales / next_year.sat_sales AS sat_ratio
FROM (
    SELECT s_store_name, s_store_id, sales.*
    FROM sales
    JOIN store ON s_store_sk = ss_store_sk
    JOIN date_dim ON date_dim.d_week_seq = week_seq
    WHERE d_month_seq BETWEEN 1212 AND 1223
) AS this_year
JOIN (
    SELECT s_store_name, s_store_id, sales.*
    FROM sales
    JOIN store ON s_store_sk = ss_store_sk
    JOIN date_dim ON date_dim.d_week_seq = week_seq
    WHERE d_month_seq BETWEEN 1224 AND 1235
) AS next_year
ON this_year.s_store_id = next_year.s_store_id AND this_year.week_seq = next_year.week_seq - 52
ORDER BY this_year.s_store_name NULLS FIRST, this_year.s_store_id NULLS FIRST, this_year.week_seq
LIMIT 100
