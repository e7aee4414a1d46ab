"""What TensorRT's builder, runtime and parser write to a log, whoever prints it.

`kinds` knows the messages, `heads` the prefixes of the loggers that print them, `collect` puts messages of several
lines together, `timing` reads the tables of tactics, `builds` what a run of the tool was asked for and how it ended.
"""
