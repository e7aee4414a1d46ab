"""Files that `necropsy capture` writes."""
