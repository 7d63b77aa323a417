{{ config(materialized='incremental', unique_key='name', incremental_strategy='merge') }}
select name, count(*) as bids, max(price) as highest from {{ ref('named_bids') }} group by name
