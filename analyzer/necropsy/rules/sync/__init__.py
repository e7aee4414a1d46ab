"""Rules about waits of the host for the device."""
