"""The text front end shared by every text format: from raw bytes to clean lines.

`decode` undoes encodings (UTF-16, UTF-32, byte-order marks), NUL holes and CRLF, and
cuts the result at line ends; the other modules here take lines apart (progress bars,
colours, launcher prefixes) and give each line its origin.
"""
