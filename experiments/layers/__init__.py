"""A study of modelling layers: the same programs by Pyomo, linopy, PyOptInterface and arrays, all with HiGHS.

Each program stands once in each ``by_`` module, written as the layer's own documentation writes models.
`study` builds and solves them, each in a process of its own, and says how long that takes, and how much
memory::

    python -m tutti.experiments.layers.study results/layers
"""
