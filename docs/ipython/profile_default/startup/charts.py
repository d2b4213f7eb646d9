"""Altair's charts as pictures, which need neither a network connection nor a script."""

import io
from typing import Any

from IPython import get_ipython

CHARTS = ("Chart", "LayerChart", "HConcatChart", "VConcatChart", "FacetChart")


def picture(chart: Any, **_: Any) -> dict[str, str]:
    """Return a chart as SVG, by its kind of content."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return {"image/svg+xml": text.getvalue()}


for name in CHARTS:
    get_ipython().display_formatter.mimebundle_formatter.for_type_by_name(
        "altair.vegalite.v6.api", name, picture
    )
