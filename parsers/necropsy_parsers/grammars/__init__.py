"""Small languages inside messages, read with lark; each grammar is built when its first text is read."""
