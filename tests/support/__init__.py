"""What several test modules share: cases on disk, real programs, mutations, measurements."""
