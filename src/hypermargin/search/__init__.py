"""GradientSearchCV."""
