"""Collectors: one file each, loaded by its name once a module it awaits has been imported."""
