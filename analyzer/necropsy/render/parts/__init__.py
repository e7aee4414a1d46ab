"""What renderers share: order of telling, wording, and characters that are safe to show."""
