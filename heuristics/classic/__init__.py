"""The textbook algorithms that every other method is compared with, a method on a page.

`ring`, `direct`, `halving_doubling`, `bruck`, `swing`, and those that go `by_dimension` of a grid (torus
rings, BlueConnect, Themis). For small sizes `stepwise` does all-to-alls and `walks` allreduces. Most share
`steps`: rows of a step become a schedule over shortest routes.
"""
