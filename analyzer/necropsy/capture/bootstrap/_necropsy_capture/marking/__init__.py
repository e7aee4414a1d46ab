"""Ranges named `necropsy:FILE:LINE` around each line of the user's own files, while a profiler records."""
