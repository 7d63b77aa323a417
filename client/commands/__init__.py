"""Commands of `seamline` that need nothing but the client."""
