"""The report of a finished run: one page to read, and its figures and tables for papers.

Read `tables` first: a page is sections of blocks, a block is tables and charts, and a table is HTML, Markdown
or LaTeX. The texts beside numbers are in ``templates/texts.toml``, measures, colours and axes in
``templates/looks.toml``, and ``templates/page.html`` puts a page together. The pages of growth, training,
failures and solvers are made of the same.

Then read `page`, which says what the page of a run has, and `results`, a run as its directory holds it, with
the looks and names of its methods. `standings` says how each method does over the run, who is the fastest at
which size, and the answer, with which the page begins. `panels` has the charts of a collective and their
rows, and `charts` the specs, which ``templates/charts.js`` draws from these rows (``make vega`` puts its
library together). Further parts are `comparisons` (most tables), `seeds`, `bottleneck` and `utilisation`.
`markdown` fills in pages that are read without running anything, and `experiments.cli.report` writes charts
and tables for papers. All that is drawn here was kept by `experiments.runner`.
"""
