"""Rules about launches and idle time of the device."""
