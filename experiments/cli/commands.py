"""The arguments of each command: a class of typed fields, from which `parser` makes arguments and help.

The docstring of a class is the text of its help: a summary, the meaning of each field, and examples. The name
that the help gives to a field's value stands after the field and a colon; by default it is made of the
field's name. ``tutti synth`` makes a `SynthCommand` and passes it to the function ``do_synth`` of its module.

Nothing here may take long to import, because ``tutti --help`` needs all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from tutti.topologies.errors import InputError
from tutti.topologies.options import Duration, Number, Whole
from tutti.topologies.units import exact_number, parse_size

if TYPE_CHECKING:
    from tutti.schedules.collective import Collective
    from tutti.topologies.topology import Topology

DEFAULT_METHOD, DEFAULT_SIZE = "best", "1MB"
CollectiveName = Literal[
    "allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "all-to-all", "gather", "scatter"
]
COLLECTIVES: tuple[str, ...] = get_args(CollectiveName)
"""The same names as `schedules.collective.KINDS`, which takes a second to import."""
Transport = Literal["shm", "mpi", "nccl"]
DataType = Literal["float32", "float64", "int32", "int64"]
"""The same names as `schedules.execution.session.DTYPES`."""
MAKE, USE, COMPARE, LOOK, ASK = (
    "make schedules",
    "check, time, draw and use schedules",
    "compare methods and solvers",
    "describe, measure and find networks",
    "ask for help",
)
"""The headings under which ``tutti --help`` lists the commands."""
COMMANDS: dict[str, type[Command]] = {}
"""All commands by name, in the order of ``tutti --help``."""


@dataclass_transform(kw_only_default=True)
class Command:
    """Options.

    Parameters
    ----------
    plugin : FILE
        A Python file with a method, family, bound or solver of your own (docs/plugins.md).
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    """The heading under which ``tutti --help`` lists it."""
    module: ClassVar[str]
    """The module of `experiments.cli` whose function ``do_name`` carries it out."""
    positional: ClassVar[Sequence[str]]
    """The fields that are arguments; the others are options."""
    either: ClassVar[Sequence[str]]
    """Options of which at most one may be given; if none has a default, one must be."""
    plugin: Sequence[str] = ()

    def __init_subclass__(
        cls, purpose: str = "", module: str = "", positional: Sequence[str] = (), either: Sequence[str] = ()
    ) -> None:
        cls.name = cls.__name__.removesuffix("Command").lower()
        cls.purpose, cls.module, cls.positional, cls.either = purpose, module, positional, either
        if module:
            COMMANDS[cls.name] = cls

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)
        # An annotation such as Whole(1) checks its field's value; an option that is absent has none.
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            for allowed in getattr(kind, "__metadata__", ()):
                if (value := getattr(self, name)) is not None:
                    allowed.check("", f"--{name.replace('_', '-')}", value)


class JsonOption(Command):
    """Options.

    Parameters
    ----------
    json
        Print JSON, one document a line.
    """

    json: bool = False


class CollectiveOptions(Command):
    """The problem.

    Parameters
    ----------
    collective : KIND
        One of allgather, reduce-scatter, allreduce, broadcast, reduce, all-to-all, gather, scatter.
    root
        The root of a broadcast, reduce, gather or scatter; default: 0.
    shards : W,W,...
        Relative sizes of uneven shards.
    groups : R,R|R,R
        Groups of ranks that each do the collective; or dimensions, such as tp=8,dp=4 or
        tp=8:allreduce@64MB,dp=4:reduce-scatter@1GB (docs/groups.md).
    matrix : FILE|FORM
        Of an all-to-all: bytes from each rank (row) to each, a .csv or .npy file, or uniform, random,
        zipf:1.2, hot:0.5, block:8:0.5 (docs/all_to_all_v.md).
    """

    collective: str = "allgather"
    root: int | None = None
    shards: str | None = None
    groups: str | None = None
    matrix: str | None = None
    size: str | None = None

    def on(self, topology: Topology) -> tuple[Collective, Fraction | None]:
        """Return the collective, and M in bytes: that of ``--size``, or else of the groups or the matrix.

        Raises
        ------
        InputError
            If the options do not fit each other or the topology.
        """
        from tutti.schedules.collective import asked_collective, is_dimensions

        shards = None if self.shards is None else _numbers(self.shards, "--shards")
        listed = self.groups is not None and not is_dimensions(self.groups)
        groups = list(map(_ranks, str(self.groups).split("|"))) if listed else self.groups
        how = {"root": self.root, "shards": shards, "matrix": self.matrix}
        asked, own = asked_collective(self.collective, topology.num_ranks, groups, **how)
        return asked, own if self.size is None else parse_size(self.size)


def _numbers(text: str, where: str) -> list[Fraction]:
    try:
        return [exact_number(word.strip()) for word in text.split(",")]
    except InputError as error:
        raise InputError(f"{where} '{text}': {error}") from error


def _ranks(text: str) -> list[int]:
    numbers = _numbers(text, "--groups")
    if any(number.denominator != 1 for number in numbers):
        raise InputError(f"--groups '{text}': ranks are whole numbers, such as 0,1|2,3")
    return [int(number) for number in numbers]


class WorkerOptions(Command):
    """Options.

    Parameters
    ----------
    workers : N
        Number of processes; default: as in the config.
    scheduler : ADDRESS
        The address of a Dask scheduler, or local:N (docs/cluster.md).
    """

    workers: int | None = None
    scheduler: str | None = None


class RankOptions(Command):
    """The processes.

    Parameters
    ----------
    ranks : N
        Number of processes.
    transport : shm|mpi|nccl
        What carries the data; start mpi under mpirun, nccl under torchrun.
    warmup : W
        Untimed runs before the timed ones.
    repeats : R
        Timed runs.
    seed : S
        Seed of the data.
    timeout
        How long a rank may wait for the others.
    """

    ranks: int | None = None
    transport: Transport = "shm"
    warmup: Annotated[int, Whole()] = 2
    repeats: Annotated[int, Whole(1)] = 10
    seed: Annotated[int, Whole()] = 0
    timeout: Annotated[str, Duration("30s")] = "30s"


class FormatOptions(Command):
    """Options.

    Parameters
    ----------
    option : K=V
        An option of the format; see docs/export.md.
    output : FILE
        The file or folder to write.
    """

    option: Sequence[str] = ()
    output: Path


class SynthCommand(
    CollectiveOptions,
    JsonOption,
    purpose=MAKE,
    module="synth",
    positional=("topology",),
    either=("seeds", "seed"),
):
    """Make, verify and time one schedule.

    Parameters
    ----------
    topology
        Such as torus:4x4 or nccl:FILE (see tutti list topologies), or a node-link JSON file.
    method : NAME
        See tutti list methods; default: the best of all sensible methods, found in ten seconds.
    size
        M, such as 64MB; default: the largest row of a file's matrix, else 1MB.
    chunks : C
        Chunks per shard; default: see tutti list methods.
    seeds : S
        Try seeds 0 to S-1 and keep the best.
    seed : N
        Try this seed only.
    option : K=V
        An option of the method; see tutti list methods.
    output : FILE
        .json, .json.gz or .npz; or .rounds, which tacos writes while it runs, and resumes.
    repair : FILE
        Change the schedule in FILE, made for the whole network, where links of this one failed.
    quiet
        Show no progress on the terminal.

    Examples
    --------
    $ tutti synth torus:4x4 --method bfb --collective allreduce --size 1MB -o torus.json
    $ tutti synth "mesh:5x5?bandwidth=50GB/s,75GB/s" --method tacos --chunks 4 --seeds 20 --size 64MiB
    """

    topology: str
    method: str | None = None
    chunks: int | None = None
    seeds: int = 1
    seed: int | None = None
    option: Sequence[str] = ()
    output: Path | None = None
    repair: Path | None = None
    quiet: bool = False


class TuneCommand(FormatOptions, JsonOption, purpose=MAKE, module="run", positional=("topology",)):
    """Write the fastest schedules for a range of sizes as files that a runtime loads.

    Parameters
    ----------
    topology
        A network, as for synth; for msccl and mscclpp its switches only forward.
    collective : KIND
        One of allgather, reduce-scatter, allreduce, broadcast, reduce, all-to-all, gather, scatter.
    sizes
        A range or a list of sizes.
    methods
        Names, separated by commas; default: all methods that take seconds.
    time_limit
        Limit for each method.
    files
        Write at most so many files; MSCCL loads four.
    workers
        Number of processes; default: one per core.
    format : NAME
        What to write: msccl, mscclpp, or rules for a tuner: nccl-tuner, ompi-rules (docs/export.md).
    output : DIR
        The folder to write.
    """

    topology: str
    collective: CollectiveName = "allreduce"
    sizes: str = "1KB..1GB"
    methods: str | None = None
    time_limit: str = "20s"
    files: Annotated[int, Whole(1)] = 4
    workers: int | None = None
    format: str = "msccl"


class ImportCommand(JsonOption, purpose=MAKE, module="programs", positional=("file",)):
    """Turn a runtime's program into a schedule.

    Parameters
    ----------
    file
        A program.
    format : NAME
        What it is: msccl (docs/export.md).
    topology
        The network; default: a link between any two ranks that exchange data.
    bandwidth
        Bandwidth of each link if no topology is given; default: 50GB/s.
    alpha
        Latency of each link if no topology is given; default: 0.5us.
    root
        The root, if the file does not show it.
    output : FILE
        .json, .json.gz or .npz.
    """

    file: Path
    format: str
    topology: str | None = None
    bandwidth: str | None = None
    alpha: str | None = None
    root: int | None = None
    output: Path


class VerifyCommand(JsonOption, purpose=USE, module="programs", positional=("file",)):
    """Replay a schedule, or run a program, and name the first fault.

    Parameters
    ----------
    file
        A schedule: .json, .json.gz, .npz, .csv or .rounds; or a program as MSCCL XML.
    root
        The root, if the program does not show it.
    """

    file: Path
    root: int | None = None


class SimulateCommand(JsonOption, purpose=USE, module="programs", positional=("file",)):
    """Simulate the time of a schedule at a size.

    Parameters
    ----------
    file
        A schedule: .json, .json.gz, .npz or .csv.
    size
        M, such as 1MB.
    slices
        Cut each message of a flow schedule into so many slices.
    store_and_forward
        A rank or switch forwards a message only when all of it is there.
    overlap_alpha
        A link is free again while alpha passes.
    reduce
        A rank reduces what it receives at this rate, such as 200GB/s; default: as the network says.
    congestion : SHARE
        Each connection of a switch's port beyond the first takes this share of time more for a byte there.
    """

    file: Path
    size: str
    slices: int = 1
    store_and_forward: bool = False
    overlap_alpha: bool = False
    reduce: str | None = None
    congestion: str = "0"


class ShowCommand(Command, purpose=USE, module="programs", positional=("what",)):
    """Draw a network, or play a schedule on it, as a page for the browser.

    Parameters
    ----------
    what
        A schedule (.json, .json.gz, .npz, .csv), a program (.xml, .json) or a network, as for synth.
    size
        M, such as 1MB; default: what the schedule was made for, or 1MB.
    output : FILE
        The page; default: NAME.show.html in this folder.
    no_open
        Only write the page.

    Examples
    --------
    $ tutti show torus.json --size 64MB
    $ tutti show dgx_a100:2 -o network.html --no-open
    """

    what: str
    size: str | None = None
    output: Path | None = None
    no_open: bool = False


class ExportCommand(FormatOptions, JsonOption, purpose=USE, module="programs", positional=("file",)):
    """Write a schedule in the format of a runtime or simulator.

    Parameters
    ----------
    file
        A schedule: .json, .json.gz, .npz or .csv.
    format : NAME
        What to write: msccl, mscclpp, chakra, goal, nccl-graph, graphml, csv or listing.
    """

    file: Path
    format: str


class ExecCommand(RankOptions, JsonOption, purpose=USE, module="execution", positional=("file",)):
    """Run a schedule or program on real processes, check its result, and time it.

    Parameters
    ----------
    file
        A schedule (.json, .json.gz, .npz, .csv), an MSCCL XML (.xml) or a plan of MSCCL++ (.json).
    size
        M, or several, separated by commas.
    dtype : TYPE
        Type of an element: float32, float64, int32 or int64.
    against_model : TOPOLOGY
        Also simulate it on this network, such as a file of tutti profile.

    Examples
    --------
    $ tutti exec ring.json --size 1KiB,1MiB,64MiB
    $ mpirun --oversubscribe -n 8 tutti exec ring.json --transport mpi
    """

    file: Path
    size: str = "1KiB,1MiB,64MiB"
    dtype: DataType = "float32"
    against_model: str | None = None


class RunCommand(WorkerOptions, purpose=COMPARE, module="run", positional=("config",)):
    """Run an experiment, or continue it.

    Parameters
    ----------
    config
        A TOML file.
    out : DIR
        Where the results go; default: results/<name>.
    fresh
        Start over instead of continuing.
    rejudge
        Keep the times that other versions of tutti made, and compute their bounds again.
    only : PATTERN
        Run only topologies, collectives or methods that match; * stands for any text.
    quiet
        Print only failures.
    """

    config: Path
    out: Path | None = None
    fresh: bool = False
    rejudge: bool = False
    only: str | None = None
    quiet: bool = False


class ReportCommand(Command, purpose=COMPARE, module="report", positional=("runs",)):
    """Write the report of finished runs, with figures and tables for a paper.

    Parameters
    ----------
    runs : DIR
        A folder that tutti run wrote.
    output : FILE
        The page; default: DIR/report.html, or report.html for several folders.
    baseline : METHOD
        Show how many times faster than this one the others are.
    figures : DIR
        Write charts there, for papers: all, or only those of DIR/bandwidth,gaps,costs,links.
    format : F,F,...
        Formats of the figures: svg, pdf, png; default: svg.
    latex : DIR
        Write the tables there, with booktabs.

    Examples
    --------
    $ tutti report results/torus --figures figures --format pdf --latex tables
    $ tutti report results/torus results/hypercube -o both.html
    """

    runs: Sequence[Path]
    output: Path | None = None
    baseline: str | None = None
    figures: Path | None = None
    format: str | None = None
    latex: Path | None = None


class ModelCommand(JsonOption, purpose=COMPARE, module="run", positional=("model", "topology")):
    """Write one of tutti's linear or mixed-integer programs as an MPS or LP file.

    Parameters
    ----------
    model
        A program with its options, such as all-to-all or "sccl chunks=2"; an unknown name lists them.
    topology
        Such as torus:4x4 or nccl:FILE (see tutti list topologies), or a node-link JSON file.
    output : FILE
        The file to write, ending in .mps or .lp.
    large
        Write it even if it takes more than 4 GB.
    """

    model: str
    topology: str
    output: Path
    large: bool = False


class TopologyCommand(JsonOption, purpose=LOOK, module="listing", positional=("topology",)):
    """Describe a network: hosts, tiers of links, links of each rank, symmetries, bounds.

    Parameters
    ----------
    topology
        Such as torus:4x4 or nccl:FILE (see tutti list topologies), or a node-link JSON file.
    sizes
        Sizes for the bounds.
    """

    topology: str
    sizes: str = "1KB,1MB,1GB"


class BoundCommand(CollectiveOptions, JsonOption, purpose=LOOK, module="synth", positional=("topology",)):
    """Prove lower bounds that no schedule can beat.

    Parameters
    ----------
    topology
        Such as torus:4x4 or nccl:FILE (see tutti list topologies), or a node-link JSON file.
    size
        M, such as 1MB; without it, only bounds on bandwidth.
    lp
        Then solve linear programs too, most of which need --size: at most ten minutes each.
    check : FILE
        Recompute the certificates in a file that --json wrote.
    """

    topology: Sequence[str] = ()
    lp: bool = False
    check: Path | None = None


class FindCommand(WorkerOptions, JsonOption, purpose=LOOK, module="find", either=("nodes", "up_to")):
    """Find the best networks with a given number of ranks and links per rank.

    Parameters
    ----------
    nodes : N
        Number of ranks.
    up_to : N
        Do it for all numbers of ranks up to N, and write to -o DIR.
    degree : D
        Links out of each rank.
    bidirectional
        Only networks whose links go both ways.
    max_diameter : HOPS
        Only networks of at most this diameter.
    build
        Make and verify every schedule.
    all_to_all
        Find the time of an all-to-all on each.
    mix : SHARE
        The share of all-to-alls among the collectives, 0 to 1.
    time_limit
        Limit of the search for each all-to-all.
    size
        M; with --up-to several, separated by commas.
    bandwidth
        Bandwidth of a node, over all its links.
    alpha
        Latency of a step.
    output : DIR
        The folder for --up-to; what is there is continued.
    workers : N
        With --up-to: number of processes; default: one per core.

    Examples
    --------
    $ tutti find --nodes 1024 --degree 4 --build
    $ tutti find --nodes 128 --degree 4 --mix 0.3
    $ tutti find --up-to 2000 --degree 4 --size 1MiB,100MiB -o results/degree4
    """

    nodes: int | None = None
    up_to: int | None = None
    degree: int
    bidirectional: bool = False
    max_diameter: int | None = None
    build: bool = False
    all_to_all: bool = False
    mix: Annotated[float | None, Number(least=0, most=1)] = None
    time_limit: Annotated[str, Duration("60s")] = "60s"
    size: str = "1MiB"
    bandwidth: str = "100Gb/s"
    alpha: str = "10us"
    output: Path | None = None


class FitCommand(JsonOption, purpose=LOOK, module="execution", positional=("file",)):
    """Find alpha and bandwidth from measured times.

    Parameters
    ----------
    file
        Output of nccl-tests (also the JSON of -J) or the OSU micro-benchmarks, or a CSV with
        source,destination,bytes,seconds and perhaps messages (in how many messages the bytes were sent, one
        after the other).
    topology : NETWORK
        The network that -o writes with the measured values.
    output : FILE
        A network file (.json) with the measured values; without --topology with the pairs of the CSV.
    pair : A,B
        The two ranks that were measured, if the table names none; implies --alike.
    alike
        Links that are alike in NETWORK get the same measured values.
    in_place
        Take the in-place times of nccl-tests, not those out of place.
    tolerance : SHARE
        Name sizes that deviate from the fit by more than this.
    """

    file: Path
    topology: str | None = None
    output: Path | None = None
    pair: str | None = None
    alike: bool = False
    in_place: bool = False
    tolerance: str = "10%"


class ProfileCommand(RankOptions, JsonOption, purpose=LOOK, module="execution"):
    """Measure alpha and bandwidth between all ranks, and write a network file.

    Parameters
    ----------
    sizes
        Sizes of the messages.
    output : FILE
        The network file to write.
    """

    sizes: str = "4KB,64KB,256KB"
    repeats: Annotated[int, Whole(1)] = 5
    output: Path | None = None


class ListCommand(JsonOption, purpose=ASK, module="listing", positional=("what",)):
    """List the methods, the families of networks or the solvers.

    Parameters
    ----------
    what : methods|topologies|solvers
        What to list.
    collective : KIND
        Only methods that do this collective.
    network : TOPOLOGY
        Only methods that run on this network.

    Examples
    --------
    $ tutti list methods --collective allreduce --network torus:4x4
    """

    what: Literal["methods", "topologies", "solvers"] | None = None
    collective: str | None = None
    network: str | None = None


class CompletionCommand(Command, purpose=ASK, module="parser", positional=("shell",)):
    """Print a script that completes tutti's commands and options in a shell.

    Parameters
    ----------
    shell : bash|zsh
        Which shell.

    Examples
    --------
    $ eval "$(tutti completion bash)"                    # in ~/.bashrc
    $ tutti completion zsh > "${fpath[1]}/_tutti"        # once
    """

    shell: Literal["bash", "zsh"]


class HelpCommand(Command, purpose=ASK, module="parser", positional=("command",)):
    """Explain a command.

    Parameters
    ----------
    command
        Which one; default: a list of all commands.
    """

    command: str | None = None
