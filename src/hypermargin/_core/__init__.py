"""What everything stands on: spaces, time and threads, compiled helpers."""
