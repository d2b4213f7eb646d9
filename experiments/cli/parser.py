"""The arguments of every command, and the version of this installation."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tutti.experiments import installed_version
from tutti.experiments.printable import complaint
from tutti.topologies.errors import InputError, suggestion

DEFAULT_COLLECTIVE, DEFAULT_SIZE, DEFAULT_METHOD = "allgather", "1MB", "best"
COLLECTIVES = (
    *("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "all-to-all", "gather", "scatter"),
)
"""`schedules.collective.KINDS`, which takes a second to import: too long for ``--help``."""
TRANSPORTS = ("shm", "mpi", "nccl")
DTYPES = ("float32", "float64", "int32", "int64")
"""`schedules.execution.data.DTYPES`."""


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which takes no abbreviated option."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is not known here: a command's own help has what is."""
        self._check_options(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _check_options(self, words: Sequence[str]) -> None:
        """Propose a name for the first unknown option, before argparse complains about anything else."""
        for word in words:
            name = word.partition("=")[0]
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return  # what follows are values, or the words of a command
            if re.fullmatch("--[^ ]+", name) and name not in self._option_string_actions:
                self.error(f"no option '{name}'{suggestion(name, self._long_options())}")

    def _long_options(self) -> list[str]:
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of an argument's choices, such as a command that does not exist."""
        if action.choices is not None and value not in action.choices:
            known = suggestion(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{known}")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        more = "" if message.endswith("?") else f"; see {self.prog} --help"
        self.exit(2, complaint(f"{self.prog}: {message}{more}") + "\n")


def _path(text: str) -> Path:
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"no file has a null character in its name: {text!r}")
    return Path(text)


def with_negatives(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with a negative value joined to its option.

    A word that begins with a minus and a digit is no option of ours, though argparse takes ``-1MB`` for one.

    Examples
    --------
    >>> with_negatives(["bound", "ring:4", "--size", "-1MB", "--json"])
    ['bound', 'ring:4', '--size=-1MB', '--json']
    """
    joined: list[str] = []
    for word in words:
        option = joined and re.fullmatch("--[a-z][a-z-]*", joined[-1])
        if option and re.match(r"-[.]?[0-9]", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; the parsed arguments hold the ``place`` of what executes the command."""
    parser = OneLineParser(
        prog="tutti",
        description="Make schedules for collective communication, and prove how far each is from optimal.",
        epilog=_examples(
            "tutti synth torus:4x4 --method bfb --size 1MB",
            "tutti bound dgx_a100:2 --collective allreduce --size 1GB",
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tutti {installed_version()}")
    parser.set_defaults(place="parser:explain", command=None, parser=parser, commands={}, plugin=[])
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=OneLineParser)
    for add in (
        *(_run, _report, _synth, _verify, _simulate),
        *(_bound, _topology_command, _fit, _find, _show, _export, _import, _exec, _profile, _tune),
        *(_list, _model, _completion, _help),
    ):
        add(commands)
    return parser


def _examples(*examples: str) -> str:
    return "".join(["examples:\n", *(f"  {example}\n" for example in examples)])


def _command(commands: Any, name: str, place: str, summary: str, *examples: str) -> argparse.ArgumentParser:
    how: dict[str, Any] = {"help": summary, "description": summary}
    if examples:
        how |= {"epilog": _examples(*examples), "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser: argparse.ArgumentParser = commands.add_parser(name, **how)
    parser.set_defaults(place=place)
    plugin = "a Python file with a method, family, bound or solver of your own (docs/plugins.md)"
    _option(parser, "--plugin FILE", plugin, action="append", default=[])
    return parser


def _option(parser: argparse._ActionsContainer, words: str, text: str, **how: Any) -> None:
    """Add an option. `words` are its names and, unless that is made of the name, what its value is called."""
    *names, last = words.split()
    named: dict[str, Any] = {} if last.startswith("-") else {"metavar": last}
    parser.add_argument(*names, *([] if named else [last]), help=text, **named, **how)


def _flag(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    parser.add_argument(name, action="store_true", help=text)


def _output(parser: argparse.ArgumentParser, kind: str, text: str, *, required: bool = False) -> None:
    _option(parser, f"-o --output {kind}", text, type=_path, required=required)


def _json(parser: argparse.ArgumentParser) -> None:
    _flag(parser, "--json", "print JSON, one document a line")


def _topology(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    what = "such as torus:4x4 or nccl:FILE (see tutti list topologies), or a node-link JSON file"
    parser.add_argument("topology", nargs=nargs, help=what)


def _file(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("file", type=_path, help=what)


def _collective(parser: argparse.ArgumentParser) -> None:
    kinds = f"{', '.join(COLLECTIVES)}; default: {DEFAULT_COLLECTIVE}"
    _option(parser, "--collective KIND", kinds, default=DEFAULT_COLLECTIVE)
    _option(parser, "--root", "the root of a broadcast, reduce, gather or scatter; default: 0", type=int)
    _option(parser, "--shards W,W,...", "relative sizes of uneven shards")
    groups = (
        "groups of ranks that each do the collective; or dimensions, such as tp=8,dp=4 or "
        "tp=8:allreduce@64MB,dp=4:reduce-scatter@1GB (docs/groups.md)"
    )
    _option(parser, "--groups R,R|R,R", groups)
    matrix = (
        "of an all-to-all: bytes from each rank (row) to each, a .csv or .npy file, or uniform, random, "
        "zipf:1.2, hot:0.5, block:8:0.5 (docs/all_to_all_v.md)"
    )
    _option(parser, "--matrix FILE|FORM", matrix)


def _workers(parser: argparse.ArgumentParser, workers: str) -> None:
    _option(parser, "--workers N", workers, type=int)
    _option(parser, "--scheduler ADDRESS", "the address of a Dask scheduler, or local:N (docs/cluster.md)")


def _run(commands: Any) -> None:
    parser = _command(commands, "run", "run", "run an experiment, or continue it")
    parser.add_argument("config", type=_path, help="a TOML file")
    _option(parser, "--out DIR", "default: results/<name>", type=_path)
    _workers(parser, "number of processes; default: as in the config")
    _flag(parser, "--fresh", "start over instead of continuing")
    again = "keep the times that other versions of tutti made, and compute their bounds again"
    _flag(parser, "--rejudge", again)
    only = "run only topologies, collectives or methods that match; * stands for any text"
    _option(parser, "--only PATTERN", only)
    _flag(parser, "--quiet", "print only failures")


def _report(commands: Any) -> None:
    summary = "write the report of finished runs, with figures and tables for a paper"
    pictures = "tutti report results/torus --figures figures --format pdf --latex tables"
    several = "tutti report results/torus results/hypercube -o both.html"
    parser = _command(commands, "report", "report", summary, pictures, several)
    parser.add_argument("runs", type=_path, nargs="+", metavar="DIR", help="a folder that tutti run wrote")
    _output(parser, "FILE", "the page; default: DIR/report.html, or report.html for several folders")
    _option(parser, "--baseline METHOD", "show how many times faster than this one the others are")
    _option(parser, "--figures DIR", "write every chart there, for papers", type=_path)
    _option(parser, "--format F,F,...", "formats of the figures: svg, pdf, png; default: svg")
    _option(parser, "--latex DIR", "write the tables there, with booktabs", type=_path)


def _synth(commands: Any) -> None:
    torus = "tutti synth torus:4x4 --method bfb --collective allreduce --size 1MB -o torus.json"
    mesh = 'tutti synth "mesh:5x5?bandwidth=50GB/s,75GB/s" --method tacos --chunks 4 --seeds 20 --size 64MiB'
    parser = _command(commands, "synth", "synth", "make, verify and time one schedule", torus, mesh)
    _topology(parser)
    default = "see tutti list methods; default: the best of all sensible methods, found in ten seconds"
    _option(parser, "--method NAME", default)
    _collective(parser)
    size = f"M, such as 64MB; default: the largest row of a file's matrix, else {DEFAULT_SIZE}"
    _option(parser, "--size", size)
    _option(parser, "--chunks C", "chunks per shard; default: see tutti list methods", type=int)
    seeds = parser.add_mutually_exclusive_group()
    _option(seeds, "--seeds S", "try seeds 0 to S-1 and keep the best; default: 1", type=int, default=1)
    _option(seeds, "--seed N", "try this seed only; default: 0", type=int)
    option = "an option of the method; see tutti list methods"
    _option(parser, "--option K=V", option, action="append", default=[])
    written = ".json, .json.gz or .npz; or .rounds, which tacos writes while it runs, and resumes"
    _output(parser, "FILE", written)
    repair = "change the schedule in FILE, made for the whole network, where links of this one failed"
    _option(parser, "--repair FILE", repair, type=_path)
    _flag(parser, "--quiet", "show no progress on the terminal")
    _json(parser)


def _verify(commands: Any) -> None:
    summary = "replay a schedule, or run a program, and name the first fault"
    parser = _command(commands, "verify", "verify", summary)
    _file(parser, "a schedule: .json, .json.gz, .npz, .csv or .rounds; or a program as MSCCL XML")
    _option(parser, "--root", "the root, if the program does not show it", type=int)
    _json(parser)


def _simulate(commands: Any) -> None:
    parser = _command(commands, "simulate", "simulate", "simulate the time of a schedule at a size")
    _file(parser, "a schedule: .json, .json.gz, .npz or .csv")
    _option(parser, "--size", "M, such as 1MB", required=True)
    slices = "cut each message of a flow schedule into so many slices; default: 1"
    _option(parser, "--slices", slices, type=int, default=1)
    waits = "a rank or switch forwards a message only when all of it is there"
    _flag(parser, "--store-and-forward", waits)
    _flag(parser, "--overlap-alpha", "a link is free again while alpha passes")
    _json(parser)


def _bound(commands: Any) -> None:
    parser = _command(commands, "bound", "bound", "prove lower bounds that no schedule can beat")
    _topology(parser, nargs="*")
    _collective(parser)
    _option(parser, "--size", "M, such as 1MB; without it, only bounds on bandwidth")
    programs = "then solve linear programs too, most of which need --size: at most ten minutes each"
    _flag(parser, "--lp", programs)
    check = "recompute the certificates in a file that --json wrote"
    _option(parser, "--check FILE", check, type=Path)
    _json(parser)


def _topology_command(commands: Any) -> None:
    summary = "describe a network: hosts, tiers of links, links of each rank, symmetries, bounds"
    parser = _command(commands, "topology", "topology", summary)
    _topology(parser)
    _option(parser, "--sizes", "sizes for the bounds; default: %(default)s", default="1KB,1MB,1GB")
    _json(parser)


def _fit(commands: Any) -> None:
    parser = _command(commands, "fit", "fit", "find alpha and bandwidth from measured times")
    _file(
        parser,
        "output of nccl-tests (also the JSON of -J) or the OSU micro-benchmarks, or a CSV with "
        "source,destination,bytes,seconds",
    )
    _option(parser, "--topology NETWORK", "the network that -o writes with the measured values")
    written = "a network file (.json) with the measured values; by default with the pairs of the CSV"
    _output(parser, "FILE", written)
    pair = "the two ranks that were measured, if the table names none; implies --alike"
    _option(parser, "--pair A,B", pair)
    _flag(parser, "--alike", "links that are alike in NETWORK get the same measured values")
    _flag(parser, "--in-place", "take the in-place times of nccl-tests, not those out of place")
    tolerance = "name sizes that deviate from the fit by more than this; default: %(default)s"
    _option(parser, "--tolerance SHARE", tolerance, default="10%")
    _json(parser)


def _find(commands: Any) -> None:
    summary = "find the best networks with a given number of ranks and links per rank"
    built = "tutti find --nodes 1024 --degree 4 --build"
    mixed = "tutti find --nodes 128 --degree 4 --mix 0.3"
    every = "tutti find --up-to 2000 --degree 4 --size 1MiB,100MiB -o results/degree4"
    parser = _command(commands, "find", "find", summary, built, mixed, every)
    many = parser.add_mutually_exclusive_group(required=True)
    _option(many, "--nodes N", "number of ranks", type=int)
    _option(many, "--up-to N", "do it for all numbers of ranks up to N, and write to -o DIR", type=int)
    _option(parser, "--degree D", "links out of each rank", type=int, required=True)
    _flag(parser, "--bidirectional", "only networks whose links go both ways")
    _option(parser, "--max-diameter HOPS", "only networks of at most this diameter", type=int)
    _flag(parser, "--build", "make and verify every schedule")
    _flag(parser, "--all-to-all", "find the time of an all-to-all on each")
    _option(parser, "--mix SHARE", "the share of all-to-alls among the collectives, 0 to 1", type=float)
    limit = "limit of the search for each all-to-all; default: %(default)s"
    _option(parser, "--time-limit", limit, default="60s")
    size = "M; with --up-to several, separated by commas; default: %(default)s"
    _option(parser, "--size", size, default="1MiB")
    bandwidth = "bandwidth of a node, over all its links; default: %(default)s"
    _option(parser, "--bandwidth", bandwidth, default="100Gb/s")
    _option(parser, "--alpha", "latency of a step; default: %(default)s", default="10us")
    _output(parser, "DIR", "the folder for --up-to; what is there is continued")
    _workers(parser, "with --up-to: number of processes; default: one per core")
    _json(parser)


def _show(commands: Any) -> None:
    summary = "draw a network, or play a schedule on it, as a page for the browser"
    played, drawn = "tutti show torus.json --size 64MB", "tutti show dgx_a100:2 -o network.html --no-open"
    parser = _command(commands, "show", "show", summary, played, drawn)
    what = "a schedule (.json, .json.gz, .npz, .csv), a program (.xml, .json) or a network, as for synth"
    parser.add_argument("what", help=what)
    _option(parser, "--size", "M, such as 1MB; default: what the schedule was made for, or 1MB")
    _output(parser, "FILE", "the page; default: NAME.show.html in this folder")
    _flag(parser, "--no-open", "only write the page")


def _export(commands: Any) -> None:
    summary = "write a schedule in the format of a runtime or simulator"
    parser = _command(commands, "export", "programs:export", summary)
    _file(parser, "a schedule: .json, .json.gz, .npz or .csv")
    _format(parser, "what to write: msccl, mscclpp, chakra, goal, nccl-graph, graphml, csv or listing")
    _exported(parser, "FILE")


def _tune(commands: Any) -> None:
    summary = "write the fastest schedules for a range of sizes as files that a runtime loads"
    parser = _command(commands, "tune", "tune", summary)
    network = "a network, as for synth; for msccl and mscclpp its switches only forward"
    parser.add_argument("topology", help=network)
    _option(parser, "--collective", "default: allreduce", choices=COLLECTIVES, default="allreduce")
    _option(parser, "--sizes", "a range or a list of sizes; default: 1KB..1GB", default="1KB..1GB")
    names = "names, separated by commas; default: all methods that take seconds"
    _option(parser, "--methods", names)
    _option(parser, "--time-limit", "limit for each method; default: 20s", default="20s")
    files = "write at most so many files; default: 4, as many as MSCCL loads"
    _option(parser, "--files", files, type=int, default=4)
    _option(parser, "--workers", "processes; default: one per core", type=int)
    _format(
        parser,
        "what to write: msccl, mscclpp, or rules for a tuner: nccl-tuner, ompi-rules (docs/export.md); "
        "default: msccl",
        default="msccl",
    )
    _exported(parser, "DIR")


def _import(commands: Any) -> None:
    parser = _command(commands, "import", "programs:imported", "turn a runtime's program into a schedule")
    _file(parser, "a program")
    _format(parser, "what it is: msccl (docs/export.md)")
    _option(parser, "--topology", "the network; default: a link between any two ranks that exchange data")
    _option(parser, "--bandwidth", "bandwidth of each link if no topology is given; default: 50GB/s")
    _option(parser, "--alpha", "latency of each link if no topology is given; default: 0.5us")
    _option(parser, "--root", "the root, if the file does not show it", type=int)
    _output(parser, "FILE", ".json, .json.gz or .npz", required=True)
    _json(parser)


def _format(parser: argparse.ArgumentParser, what: str, default: str | None = None) -> None:
    _option(parser, "--format NAME", what, required=default is None, default=default)


def _exported(parser: argparse.ArgumentParser, kind: str) -> None:
    option = "an option of the format; see docs/export.md"
    _option(parser, "--option K=V", option, action="append", default=[])
    _output(parser, kind, "the file or folder to write", required=True)
    _json(parser)


def _ranks(parser: argparse.ArgumentParser, repeats: int) -> None:
    _option(parser, "--ranks N", "number of processes", type=int)
    how = "what carries the data; start mpi under mpirun, nccl under torchrun; default: %(default)s"
    names = "|".join(TRANSPORTS)
    _option(parser, f"--transport {names}", how, choices=TRANSPORTS, default=TRANSPORTS[0])
    _option(parser, "--warmup W", "untimed runs before the timed ones; default: 2", type=int, default=2)
    _option(parser, "--repeats R", "timed runs; default: %(default)s", type=int, default=repeats)
    _option(parser, "--seed S", "seed of the data; default: 0", type=int, default=0)
    _option(
        parser, "--timeout", "how long a rank may wait for the others; default: %(default)s", default="30s"
    )


def _exec(commands: Any) -> None:
    summary = "run a schedule or program on real processes, check its result, and time it"
    here = "tutti exec ring.json --size 1KiB,1MiB,64MiB"
    over_mpi = "mpirun --oversubscribe -n 8 tutti exec ring.json --transport mpi"
    parser = _command(commands, "exec", "execution", summary, here, over_mpi)
    _file(
        parser, "a schedule (.json, .json.gz, .npz, .csv), an MSCCL XML (.xml) or a plan of MSCCL++ (.json)"
    )
    sizes = "M, or several, separated by commas; default: %(default)s"
    _option(parser, "--size", sizes, default="1KiB,1MiB,64MiB")
    _option(parser, "--dtype", "type of an element; default: %(default)s", choices=DTYPES, default=DTYPES[0])
    _ranks(parser, 10)
    model = "also simulate it on this network, such as a file of tutti profile"
    _option(parser, "--against-model TOPOLOGY", model)
    _json(parser)


def _profile(commands: Any) -> None:
    summary = "measure alpha and bandwidth between all ranks, and write a network file"
    parser = _command(commands, "profile", "execution:profiled", summary)
    _option(parser, "--sizes", "sizes of the messages; default: %(default)s", default="4KB,64KB,256KB")
    _ranks(parser, 5)
    _output(parser, "FILE", "the network file to write")
    _json(parser)


def _model(commands: Any) -> None:
    summary = "write one of tutti's linear or mixed-integer programs as an MPS or LP file"
    parser = _command(commands, "model", "model", summary)
    what = 'a program with its options, such as all-to-all or "sccl chunks=2"; an unknown name lists them'
    parser.add_argument("model", help=what)
    _topology(parser)
    _output(parser, "FILE", "the file to write, ending in .mps or .lp", required=True)
    _flag(parser, "--large", "write it even if it takes more than 4 GB")
    _json(parser)


def _list(commands: Any) -> None:
    summary = "list the methods, the families of networks or the solvers"
    parser = _command(commands, "list", "listing", summary)
    choices = ["methods", "topologies", "solvers"]
    parser.add_argument("what", nargs="?", choices=choices, metavar="|".join(choices), help="what to list")
    parser.set_defaults(parser=parser)
    _json(parser)


def _completion(commands: Any) -> None:
    summary = "print a script that completes tutti's commands and options in a shell"
    bash = f"""{'eval "$(tutti completion bash)"':50} # in ~/.bashrc"""
    zsh = f"""{'tutti completion zsh > "${fpath[1]}/_tutti"':50} # once"""
    parser = _command(commands, "completion", "listing:complete", summary, bash, zsh)
    parser.add_argument("shell", choices=["bash", "zsh"], metavar="bash|zsh", help="which shell")


def _help(commands: Any) -> None:
    parser = _command(commands, "help", "parser:explain", "explain a command")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="default: a list of all commands")
    parser.set_defaults(commands=commands.choices)


def explain(arguments: argparse.Namespace) -> int:
    """Print the help of a command, or of all.

    Raises
    ------
    InputError
        If there is no such command.
    """
    name, parser = arguments.command, arguments.parser
    if name is not None:
        if name not in arguments.commands:
            raise InputError(f"no command '{name}'{suggestion(name, arguments.commands)}")
        parser = arguments.commands[name]
    parser.print_help()
    return 0
