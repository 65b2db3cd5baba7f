"""The tables and figures of the documentation: `python -m benchmarks list`."""
