"""The gateway's own tables: `information_schema`, `system`, and what is listed by them and SHOW."""
