"""Linear machines."""
