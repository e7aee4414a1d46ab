"""What could not be read (INP)."""
