"""Kernel machines, trained exactly."""
