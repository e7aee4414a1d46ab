"""What ended a job: exceptions, signals, CUDA errors (CRS)."""
