"""Programs that measure: run by hand, never by the tests. Figures compare only within one run on one machine."""
