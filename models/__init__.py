"""Exact models: lower bounds with certificates, the bottleneck cut, and the models that solvers solve."""
