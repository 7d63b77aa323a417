{{ config(materialized='table') }}
select name, count(*) as bids, sum(price) as total from {{ ref('named_bids') }} group by name
