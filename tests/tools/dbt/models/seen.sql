{{ config(materialized='incremental') }}
select id from {{ ref('named_bids') }}
{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
