"""Estimators of our own."""
