"""What a gateway is made of: its parts put together, and the application that serves them."""
