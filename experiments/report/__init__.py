"""The report of a finished run: one page to read, and single figures for papers."""

from experiments.report.figures import save_figure
from experiments.report.page import write_report

__all__ = ["save_figure", "write_report"]
