"""The rules, one per file, by family; discovery walks this package."""
