"""The report of a fitted log: one self-contained HTML file."""
