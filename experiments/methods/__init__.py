"""Methods that call other methods: `best`, the portfolio, and `list_scheduled` (the method ``listed``)."""
