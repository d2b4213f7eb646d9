"""Schedules: what moves when, checked, costed and simulated by one piece of code each."""

from schedules.collective import Collective, Kind, collective
from schedules.method import Method, NoOptions, Problem
from schedules.schedule import Chunks, Clock, Routes, Schedule

__all__ = [
    "Chunks",
    "Clock",
    "Collective",
    "Kind",
    "Method",
    "NoOptions",
    "Problem",
    "Routes",
    "Schedule",
    "collective",
]
