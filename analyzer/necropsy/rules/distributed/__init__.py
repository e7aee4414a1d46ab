"""Jobs of many ranks: collectives, communicators, DDP (DST)."""
