"""What each kind of statement does: queries, SHOW, CREATE TABLE, INSERT and the others."""
