select b.id, b.price, c.name
from {{ source('kafka', 'bids') }} as b
join {{ ref('channels') }} as c on c.channel = b.channel
