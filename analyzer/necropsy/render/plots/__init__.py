"""Pictures of a report, one a file: their data comes from `render.parts`, and matplotlib draws it."""
