"""``tutti fit``: α and bandwidth from measured times, and a network with them."""

from __future__ import annotations

import argparse
from typing import Any

from tutti.experiments.cli.output import SHOWN, console, print_fields, print_json, print_table
from tutti.experiments.printable import printable
from tutti.topologies.errors import InputError
from tutti.topologies.files import write_topology
from tutti.topologies.measurements.calibration import calibrated, measured_network
from tutti.topologies.measurements.regression import AlphaBetaLine, fit
from tutti.topologies.measurements.series import MeasuredTimes
from tutti.topologies.measurements.tables import read_measurements
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, exact_number, format_size, short


def execute(arguments: argparse.Namespace) -> int:
    """Fit a line to every series, print them, and write the network if asked to."""
    if arguments.topology is not None and arguments.output is None:
        raise InputError("--topology is the network that -o writes with what was measured; give -o too")
    if arguments.alike and arguments.topology is None:
        raise InputError("--alike is for the links of a network; give --topology")
    if arguments.output is not None and arguments.output.suffix != ".json":
        raise InputError(f"-o {arguments.output}: a topology file ends in .json")
    tolerance = _tolerance(arguments.tolerance)
    series = read_measurements(arguments.file, in_place=arguments.in_place)
    lines = [_line(one, tolerance) for one in series]
    failed = [line for line in lines if isinstance(line, InputError)]
    if len(failed) == len(lines):
        raise InputError(f"{arguments.file}: {failed[0]}")
    topology = None if arguments.output is None else _network(arguments, series, lines)
    if arguments.json:
        fits = [_fields(one, line) for one, line in zip(series, lines, strict=True)]
        written = None if arguments.output is None else str(arguments.output)
        print_json({"file": str(arguments.file), "fits": fits, "output": written})
    else:
        _print(arguments, series, lines)
    if topology is not None:
        write_topology(topology, arguments.output)
    return 0


def _tolerance(text: str) -> float:
    value = exact_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 10:
        raise InputError(f"--tolerance {text[:20]}: a share above 0, such as 10% or 0.1")
    return float(value)


def _line(series: MeasuredTimes, tolerance: float) -> AlphaBetaLine | InputError:
    try:
        return fit(series.size, series.seconds, tolerance)
    except InputError as error:
        return InputError(f"{_name(series)}: {error}")


def _network(
    arguments: argparse.Namespace, series: list[MeasuredTimes], lines: list[AlphaBetaLine | InputError]
) -> Topology:
    """Return the network to write."""
    pairs: dict[tuple[str, str], AlphaBetaLine] = {}
    for one, line in zip(series, lines, strict=True):
        if isinstance(line, InputError):
            raise InputError(f"{arguments.file}: {line}")
        pairs[one.pair or _pair(arguments, series)] = line
    whole = series[0].pair is None
    if arguments.pair is not None and not whole:
        raise InputError("--pair is for a table that does not name its ranks; this file does")
    if arguments.topology is None:
        return measured_network(pairs, str(arguments.output), arguments.file)
    network = parse_topology(arguments.topology)
    return calibrated(network, pairs, arguments.file, alike=whole or arguments.alike)


def _pair(arguments: argparse.Namespace, series: list[MeasuredTimes]) -> tuple[str, str]:
    """Return the pair that a table without names is of."""
    file = arguments.file
    if len(series) > 1:
        names = "; ".join(one.what for one in series[: SHOWN.sizes])
        raise InputError(
            f"{file} has {len(series)} tables ({names}); -o needs a file with one, point to point"
        )
    if not series[0].link:
        raise InputError(f"{file}: {series[-1].what}: its time is of no one link; -o needs point to point")
    if arguments.topology is None:
        raise InputError(f"{file} names no ranks, so there is no network to write without --topology")
    words = [word.strip() for word in (arguments.pair or "").split(",")]
    if len(words) != 2 or not all(words):
        raise InputError(f"{file} does not say whom it measured; give --pair 0,1, by labels of the network")
    return words[0], words[1]


def _name(series: MeasuredTimes) -> str:
    return series.what if series.pair is None else f"{series.pair[0]} -> {series.pair[1]}"


def _fields(series: MeasuredTimes, line: AlphaBetaLine | InputError) -> dict[str, Any]:
    """Return what ``tutti fit --json`` has of a fit, in seconds, bytes per second and bytes."""
    head: dict[str, Any] = {
        "what": series.what,
        "notes": list(series.notes),
        "source": series.pair and series.pair[0],
        "destination": series.pair and series.pair[1],
        "samples": len(series.size),
    }
    if isinstance(line, InputError):
        return head | {"error": str(line)}
    return head | {
        "alpha_s": line.alpha,
        "alpha_interval_s": line.alpha_interval,
        "beta_s_per_byte": line.beta,
        "bandwidth": line.bandwidth,
        "bandwidth_interval": line.bandwidth_interval,
        "worst": line.worst,
        "off": [{"size_bytes": size, "error": error} for size, error in line.off],
        "note": line.note or None,
    }


def _print(
    arguments: argparse.Namespace, series: list[MeasuredTimes], lines: list[AlphaBetaLine | InputError]
) -> None:
    off = f"off by more than {short(100 * _tolerance(arguments.tolerance))} % at"
    rows = [_row(one, line) for one, line in zip(series[: SHOWN.fits], lines[: SHOWN.fits], strict=True)]
    if len(lines) > SHOWN.fits:
        rows.append([f"{len(lines) - SHOWN.fits} more", "--json has them", *[""] * 6])
    columns = ["of", "alpha", "95 %", "bandwidth", "95 %", "samples", "worst", off]
    print_table("", columns, rows)
    for note in dict.fromkeys(note for one in series for note in one.notes):
        console().print(f"note: {printable(note)}", soft_wrap=True)
    if arguments.output is not None:
        print_fields({"written": str(arguments.output)})


def _row(series: MeasuredTimes, line: AlphaBetaLine | InputError) -> list[object]:
    name = printable(_name(series))
    if isinstance(line, InputError):
        return [name, None, None, None, None, len(series.size), None, "all of one size: can't be told apart"]
    return [
        name,
        f"{short(line.alpha * MICRO)} us",
        _interval(line.alpha_interval, MICRO),
        None if line.bandwidth is None else f"{short(line.bandwidth / GIGA)} GB/s",
        _interval(line.bandwidth_interval, 1 / GIGA),
        len(series.size),
        f"{line.worst:+.1%}",
        "; ".join(filter(None, [_off(line), line.note])) or "-",
    ]


def _interval(ends: tuple[float, float] | None, scale: float) -> str | None:
    return None if ends is None else f"{ends[0] * scale:.4g} to {ends[1] * scale:.4g}"


def _off(line: AlphaBetaLine) -> str:
    """Return the sizes at which the line is off, the worst of many."""
    worst = sorted(sorted(line.off, key=lambda pair: -abs(pair[1]))[: SHOWN.sizes])
    more = f", {len(line.off) - SHOWN.sizes} more" if len(line.off) > SHOWN.sizes else ""
    return ", ".join(f"{format_size(round(size))} {error:+.0%}" for size, error in worst) + more
