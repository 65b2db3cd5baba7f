"""Linear machines on rows that lie in chunks in many places: only sums over rows come together."""
