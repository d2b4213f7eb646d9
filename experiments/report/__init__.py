"""The report of a finished run: one page to read, and its figures and tables for papers.

Read `page` first, which puts the sections together with the `templates`, then `results` (a run as its
directory holds it), `series` (what methods look like and are called), `standings` (how each does over the
run, and the answer, with which the page begins), `panels` (the charts of a collective and their rows) and
`charts` (the specs, drawn from these rows by `templates/charts.js`; ``make vega`` puts its library together).
A section each: `overview`, `switch_over`, `tables`, `bottleneck` with `bottleneck_chart`, `networks`,
`utilisation`, `seeds`, `against_optimum`. `figures` writes charts and `latex` tables for papers, `markdown`
fills in pages that are read without running anything; `text` prints numbers. What is drawn here was kept by
`experiments.runner`.
"""

from tutti.experiments.report.page import write_report

__all__ = ["write_report"]
