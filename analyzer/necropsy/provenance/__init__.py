"""From evidence to a line of the user's Python: ordered resolvers, each saying how exact it is."""
