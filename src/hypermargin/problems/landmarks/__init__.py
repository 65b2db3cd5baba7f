"""Kernel machines on landmarks."""
