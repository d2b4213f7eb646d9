"""Experiments: configs read and checked, the method registry, the runner, results and the command line."""
