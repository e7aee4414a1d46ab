"""Jobs of many ranks (DST)."""
