"""Algorithms over trees: double binary trees, MultiTree, Blink, C-Cube, TTO, and what NCCL chooses.

Each file is one method. `pipelined_trees` is shared by those that reduce up a tree and broadcast down it,
slice after slice.
"""
