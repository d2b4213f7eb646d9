"""Fast methods without a guarantee: TACOS and the plain algorithms that it is compared with."""
