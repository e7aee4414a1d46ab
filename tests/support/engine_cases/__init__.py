"""Small invented engines as the engine inspector writes them, and the fixtures of the rules about engines."""
