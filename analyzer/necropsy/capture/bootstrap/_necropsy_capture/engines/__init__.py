"""TensorRT's builders, loggers and runtimes as a job uses them, watched."""
