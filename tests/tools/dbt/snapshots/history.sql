{% snapshot history %}
{{ config(target_schema='dbt_shop', unique_key='name', strategy='check', check_cols=['bids']) }}
select name, count(*) as bids from {{ ref('named_bids') }} group by name
{% endsnapshot %}
