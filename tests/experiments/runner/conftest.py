"""A run of one test writes a short page unless the test asks for `pages`; other runs write what users get."""

import pytest


@pytest.fixture
def pages():
    """Ask for the pages that users get."""


@pytest.fixture(autouse=True)
def _pages(request):
    if "pages" not in request.fixturenames:
        request.getfixturevalue("short_pages")
