"""Reports: tables, plots, and one self-contained HTML page."""
