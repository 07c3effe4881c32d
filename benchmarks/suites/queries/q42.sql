-- Sales of the categories of one manager in November 2000.
SELECT d_year, i_category_id, i_category, SUM(ss_ext_sales_price) AS sum_agg
FROM store_sales
JOIN date_dim ON d_date_sk = ss_sold_date_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE i_manager_id = 1 AND d_moy = 11 AND d_year = 2000
GROUP BY d_year, i_category_id, i_category
ORDER BY sum_agg DESC, d_year, i_category_id NULLS FIRST, i_category NULLS FIRST
LIMIT 100
