"""Measurements: ``tutti exec``, ``profile`` and ``fit``.

A program runs on real processes and real buffers, α and bandwidth of their links are measured, and both are
fitted to times that other tools measured.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from tutti.experiments.cli.commands import ExecCommand, FitCommand, ProfileCommand, RankOptions
from tutti.experiments.cli.output import SHOWN, console, print_answer, print_fields, print_json, print_table
from tutti.experiments.cli.programs import read_program
from tutti.experiments.printable import complaint, printable, remark, say
from tutti.schedules.execution.profiling import predicted, profile, tasks_of
from tutti.schedules.execution.session import RepeatTimes, SessionTask, Settings, fifo_bytes, play
from tutti.schedules.execution.shared_memory import OverSharedMemory, run
from tutti.schedules.execution.transport import Failure
from tutti.schedules.files.schedule_file import check_place
from tutti.schedules.programs.program import Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.files import to_node_link, write_topology
from tutti.topologies.measurements.regression import AlphaBetaLine, calibrated, fit, measured_network
from tutti.topologies.measurements.series import MeasuredTimes
from tutti.topologies.measurements.tables import read_measurements
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import (
    GIGA,
    MICRO,
    duration,
    exact_number,
    format_size,
    parse_size,
    parse_time,
    short,
    throughput,
)

RIVALS = {"mpi": "MPI"}
COLUMNS = {
    "time_us": "time (us)",
    "least_us": "least",
    "most_us": "most",
    "algbw_gbps": "algbw (GB/s)",
    "busbw_gbps": "busbw (GB/s)",
}
MODELLED = {"model_us": "model (us)", "model_over_time": "model / time"}
REMOTE = ("mpi", "nccl")
"""Transports whose processes are started by a launcher, perhaps on other machines."""


class OneMachine(NamedTuple):
    """Limits on a run by processes of this machine. Larger values refuse less, except `copies`."""

    ranks: int
    """Most processes. If there were more, they would wait for each other's turn on a core."""
    profiled: int
    """Most processes whose pairs are measured, one after the other. With more, this takes hours."""
    copies: int
    """Memory that is needed, as a multiple of a rank's own: the rank, its input, the expected output, and
    the memory for comparing them. A larger value refuses more."""


MOST = OneMachine(ranks=512, profiled=64, copies=3)

Played = tuple[Sequence[SessionTask], list[list[RepeatTimes]]]
Fit = tuple[MeasuredTimes, AlphaBetaLine | InputError]
"""A table of times, and the line through them or what is wrong with them."""
Make = Callable[[int | None], Sequence[SessionTask]]
"""Returns the tasks for a number of ranks; None: as many as they want."""


def do_exec(arguments: ExecCommand) -> None:
    """Play the program at each size, check what comes out, and say how long it took."""
    sizes = [parse_size(text) for text in arguments.size.split(",")]
    network = None if arguments.against_model is None else parse_topology(arguments.against_model)
    read: list[tuple[Program, Schedule | None]] = []

    def make(ranks: int | None) -> Sequence[SessionTask]:
        read.append(read_program(arguments.file))
        program, schedule = read[0]
        if ranks not in (None, program.num_ranks):
            raise InputError(f"{arguments.file} is for {program.num_ranks} ranks, not {ranks}")
        if network is not None and schedule is None:
            raise InputError(f"{arguments.file}: --against-model simulates schedules, and this is a program")
        if broken := next((size for size in sizes if size.denominator != 1), None):
            raise InputError(f"{float(broken):g} bytes are no whole number of them")
        step = program.units * np.dtype(arguments.dtype).itemsize  # each unit is of whole elements
        return [SessionTask(program, -(-int(size) // step) * step, arguments.dtype) for size in sizes]

    if (played := on_ranks(arguments, make)) is None:
        return
    program, schedule = read[0]
    known: dict[str, Any] = {"file": str(arguments.file), "collective": str(program.collective)}
    known |= {"ranks": program.num_ranks, "transport": arguments.transport}
    documents: list[dict[str, Any]] = []
    for number, (size, task) in enumerate(zip(sizes, played[0], strict=True)):
        if task.size != size:
            units = f"{program.units} units of whole elements ({task.dtype})"
            note = f"{format_size(size)} does not divide into {units}; played at {format_size(task.size)}"
            remark(f"note: {note}")
        times, rival = [times[number] for times in played[1]], RIVALS.get(arguments.transport, "")
        document = known | measured(task, times, rival)
        if network is not None and schedule is not None:
            model = predicted(schedule, network, task.size) * MICRO
            document |= {"model_us": model, "model_over_time": model / document["time_us"]}
        documents.append(document)
    if arguments.json:
        print_json(*documents)
    else:
        _print_times(documents, arguments.file)


def measured(task: SessionTask, times: Sequence[RepeatTimes], rival: str) -> dict[str, Any]:
    """Return the times of a task: of each repeat the slowest rank's time, of these the median.

    The bandwidths are those of nccl-tests: algbw is M over the time; busbw is that times what each rank must
    at least send or receive of M, so that it can be compared with a link's bandwidth.
    """
    ours, theirs = (
        [max(repeat) for repeat in zip(*by_rank, strict=True)]
        for by_rank in ([one.ours for one in times], [one.rival for one in times])
    )
    median, factor = statistics.median(ours), task.program.collective.bus_factor
    algbw = task.size / median
    document: dict[str, Any] = {
        "size_bytes": task.size,
        "time_us": median * MICRO,
        "least_us": min(ours) * MICRO,
        "most_us": max(ours) * MICRO,
        "algbw_gbps": algbw / GIGA,
        "busbw_gbps": None if factor is None else algbw * float(factor) / GIGA,
    }
    if theirs:
        other = statistics.median(theirs)
        document |= {"rival": rival, "rival_us": other * MICRO, "time_over_rival": median / other}
    return document


def _print_times(documents: Sequence[dict[str, Any]], file: Path) -> None:
    """Print the measured times, of which no more than four digits mean anything."""
    first, rival = documents[0], documents[0].get("rival")
    heads = {**COLUMNS, "rival_us": f"{rival} (us)", "time_over_rival": f"time / {rival}", **MODELLED}
    heads = {name: head for name, head in heads.items() if name in first}

    def digits(value: float | None) -> str | None:
        return None if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"

    where = f"{first['ranks']} processes over {first['transport']}"
    rows = [[format_size(one["size_bytes"]), *(digits(one[key]) for key in heads)] for one in documents]
    title = f"{first['collective']} of {file.name} on {where}: all bytes right"
    print_table(title, ["size", *heads.values()], rows)


def do_profile(arguments: ProfileCommand) -> None:
    """Measure all pairs, and write the network."""
    sizes = [round(parse_size(text)) for text in arguments.sizes.split(",")]
    if arguments.output is not None:
        check_place(arguments.output)

    def make(ranks: int | None) -> Sequence[SessionTask]:
        if ranks is None:
            raise InputError("--ranks N says how many there are")
        if not 2 <= ranks <= MOST.profiled:
            raise InputError(f"--ranks {ranks}; pairs are measured one after another: 2 to {MOST.profiled}")
        return tasks_of(ranks, sizes)

    if (played := on_ranks(arguments, make)) is None:
        return
    ranks = played[0][0].program.num_ranks
    network = profile(f"{ranks} ranks over {arguments.transport}, measured", *played)
    if arguments.output is not None:
        write_topology(network, arguments.output)

    def spread(values: Iterable[Fraction], shown: Callable[[float], str]) -> str:
        each = [*map(float, values)]
        return f"{shown(statistics.median(each))}, from {shown(min(each))} to {shown(max(each))}"

    fields = {
        "links": f"{network.num_links}, from each of {ranks} ranks to each other",
        "alpha": spread(network.alpha, lambda value: duration(value * MICRO)),
        "bandwidth": spread(network.bandwidth, lambda value: throughput(value / GIGA)),
        "written": arguments.output,
    }
    print_answer(to_node_link(network), fields, as_json=arguments.json)


def on_ranks(arguments: RankOptions, make: Make) -> Played | None:
    """Play tasks on the ranks of ``--transport``; None in a process that isn't the one to report.

    Parameters
    ----------
    arguments
        The arguments of the command.
    make
        As `Make`.

    Raises
    ------
    Failure
        If a rank dies, hangs or gets wrong bytes.
    InputError
        If the ranks can't be had.
    """
    timeout = float(parse_time(arguments.timeout))
    settings = Settings(arguments.warmup, arguments.repeats, timeout, arguments.seed)
    if arguments.transport == "mpi":
        return _over_mpi(settings, arguments, make)
    if arguments.transport == "nccl":
        return _over_nccl(settings, arguments, make)
    tasks = _checked(make(arguments.ranks), arguments)
    return tasks, run(OverSharedMemory(tasks), tasks, settings)


def _checked(tasks: Sequence[SessionTask], arguments: RankOptions) -> Sequence[SessionTask]:
    ranks, spread = tasks[0].program.num_ranks, arguments.transport in REMOTE
    if ranks > MOST.ranks and not spread:
        raise InputError(f"{ranks} processes on one machine; at most {MOST.ranks}")
    here = [0] if spread else range(ranks)
    needed = MOST.copies * max(sum(task.memory(rank) for rank in here) for task in tasks)
    if needed > (free := psutil.virtual_memory().available):
        raise InputError(f"{format_size(needed)} of memory are needed here, and {format_size(free)} are free")
    remote = [task.program.name for task in tasks if task.program.remote.any()]
    if remote and arguments.transport != "shm":
        raise InputError(f"{remote[0]}: ranks reach into each other's memory, which takes --transport shm")
    return tasks


def _over_mpi(settings: Settings, arguments: RankOptions, make: Make) -> Played | None:
    """Play on the processes of ``mpirun``; what is wrong with the input is said by rank 0 alone."""
    from tutti.schedules.execution.mpi import Mpi, MpiCollectives, world

    everyone = world()
    tasks = None
    try:
        if everyone.rank == 0:
            made = _checked(make(arguments.ranks or everyone.size), arguments)
            if everyone.size != (ranks := made[0].program.num_ranks):
                have = f"MPI has {everyone.size} processes: mpirun -n {ranks} tutti ..."
                raise InputError(f"{ranks} ranks, and {have}")
            tasks = made
    finally:
        tasks = everyone.bcast(tasks)
    if tasks is None:
        return None
    transport = Mpi(everyone, fifo_bytes(tasks))
    try:
        times = play(everyone.rank, tasks, settings, transport, MpiCollectives(everyone))
    except Failure as error:
        say(complaint(f"tutti: {error}"), sys.stderr)
        everyone.Abort(1)
    transport.close()
    gathered = everyone.gather(times)
    return None if gathered is None else (tasks, gathered)


def _over_nccl(settings: Settings, arguments: RankOptions, make: Make) -> Played | None:
    from tutti.schedules.execution import nccl

    distributed = nccl.world()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    tasks = _checked(make(arguments.ranks or size), arguments)
    played = nccl.play(distributed, tasks, settings)
    return None if rank else (tasks, played)


def do_fit(arguments: FitCommand) -> None:
    """Fit a line to every series, print them, and write the network if asked to."""
    if arguments.topology is not None and arguments.output is None:
        raise InputError("--topology is the network that -o writes with what was measured; give -o too")
    if arguments.alike and arguments.topology is None:
        raise InputError("--alike is for the links of a network; give --topology")
    if arguments.output is not None and arguments.output.suffix != ".json":
        raise InputError(f"-o {arguments.output}: a topology file ends in .json")
    tolerance, fits = _tolerance(arguments.tolerance), list[Fit]()
    for one in read_measurements(arguments.file, in_place=arguments.in_place):
        try:
            fits.append((one, fit(one.size, one.seconds, tolerance, one.messages)))
        except InputError as error:
            fits.append((one, InputError(f"{_name(one)}: {error}")))
    if all(isinstance(line, InputError) for _, line in fits):
        raise InputError(f"{arguments.file}: {fits[0][1]}")
    topology = None if arguments.output is None else _network(arguments, fits)
    if arguments.json:
        written = None if arguments.output is None else str(arguments.output)
        print_json({"file": str(arguments.file), "fits": list(map(_fields, fits)), "output": written})
    else:
        _print_fits(arguments, fits, tolerance)
    if topology is not None and arguments.output is not None:
        write_topology(topology, arguments.output)


def _tolerance(text: str) -> float:
    value = exact_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 10:
        raise InputError(f"--tolerance {text[:20]}: a share above 0, such as 10% or 0.1")
    return float(value)


def _network(arguments: FitCommand, fits: list[Fit]) -> Topology:
    """Return the network to write."""
    pairs: dict[tuple[str, str], AlphaBetaLine] = {}
    for one, line in fits:
        if isinstance(line, InputError):
            raise InputError(f"{arguments.file}: {line}")
        pairs[one.pair or _pair(arguments, [series for series, _ in fits])] = line
    whole = fits[0][0].pair is None
    if arguments.pair is not None and not whole:
        raise InputError("--pair is for a table that does not name its ranks; this file does")
    if arguments.topology is None:
        return measured_network(pairs, str(arguments.output), arguments.file)
    network = parse_topology(arguments.topology)
    return calibrated(network, pairs, arguments.file, alike=whole or arguments.alike)


def _pair(arguments: FitCommand, series: list[MeasuredTimes]) -> tuple[str, str]:
    """Return the pair that a table without names is of."""
    file = arguments.file
    if len(series) > 1:
        names = "; ".join(one.what for one in series[: SHOWN.sizes])
        has = f"{len(series)} tables ({names})"
        raise InputError(f"{file} has {has}; -o needs a file with one, point to point")
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


def _fields(fitted: Fit) -> dict[str, Any]:
    """Return what ``tutti fit --json`` has of a fit, in seconds, bytes per second and bytes."""
    series, line = fitted
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


def _print_fits(arguments: FitCommand, fits: list[Fit], tolerance: float) -> None:
    off = f"off by more than {short(100 * tolerance)} % at"
    rows = [_row(*fitted) for fitted in fits[: SHOWN.fits]]
    if len(fits) > SHOWN.fits:
        rows.append([f"{len(fits) - SHOWN.fits} more", "--json has them", *[""] * 6])
    print_table("", ["of", "alpha", "95 %", "bandwidth", "95 %", "samples", "worst", off], rows)
    for note in dict.fromkeys(note for one, _ in fits for note in one.notes):
        console().print(f"note: {printable(note)}", soft_wrap=True)
    if arguments.output is not None:
        print_fields({"written": str(arguments.output)})


def _row(series: MeasuredTimes, line: AlphaBetaLine | InputError) -> list[object]:
    """Return a row of the table, with the sizes at which a line is off, the worst of many."""
    name, samples = printable(_name(series)), len(series.size)
    if isinstance(line, InputError):
        return [name, None, None, None, None, samples, None, "all of one size: can't be told apart"]

    def interval(ends: tuple[float, float] | None, scale: float) -> str | None:
        return None if ends is None else f"{ends[0] * scale:.4g} to {ends[1] * scale:.4g}"

    worst = sorted(sorted(line.off, key=lambda pair: -abs(pair[1]))[: SHOWN.sizes])
    more = f", {len(line.off) - SHOWN.sizes} more" if len(line.off) > SHOWN.sizes else ""
    off = ", ".join(f"{format_size(round(size))} {error:+.0%}" for size, error in worst) + more
    bandwidth = None if line.bandwidth is None else f"{short(line.bandwidth / GIGA)} GB/s"
    ends = interval(line.alpha_interval, MICRO), interval(line.bandwidth_interval, 1 / GIGA)
    said = "; ".join(filter(None, [off, line.note])) or "-"
    alpha = f"{short(line.alpha * MICRO)} us"
    return [name, alpha, ends[0], bandwidth, ends[1], samples, f"{line.worst:+.1%}", said]
