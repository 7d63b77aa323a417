{{ config(materialized='incremental', unique_key='id', incremental_strategy='delete+insert', on_schema_change='append_new_columns') }}
select id, price{% if is_incremental() %}, name{% endif %} from {{ ref('named_bids') }}
