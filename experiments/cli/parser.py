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
from tutti.topologies.errors import suggestion

DEFAULT_COLLECTIVE, DEFAULT_SIZE, DEFAULT_METHOD = "allgather", "1MB", "best"
COLLECTIVES = (
    "allgather",
    "reduce-scatter",
    "allreduce",
    "broadcast",
    "reduce",
    "all-to-all",
    "gather",
    "scatter",
)
"""`schedules.collective.KINDS`, which takes a second to import: too long for ``--help``."""

EXAMPLES = """\
examples:
  tutti synth torus:4x4 --method bfb --size 1MB
  tutti bound dgx_a100:2 --collective allreduce --size 1GB
"""
REPORT_EXAMPLES = """\
examples:
  tutti report results/torus --figures figures --format pdf --latex tables
  tutti report results/torus results/hypercube -o both.html
"""
SYNTH_EXAMPLES = """\
examples:
  tutti synth torus:4x4 --method bfb --collective allreduce --size 1MB -o torus.json
  tutti synth "mesh:5x5?bandwidth=50GB/s,75GB/s" --method tacos --chunks 4 --seeds 20 --size 64MiB
"""

FIND_EXAMPLES = """\
examples:
  tutti find --nodes 1024 --degree 4 --build
  tutti find --nodes 128 --degree 4 --mix 0.3
  tutti find --up-to 2000 --degree 4 --size 1MiB,100MiB -o results/degree4
"""


EXEC_EXAMPLES = """\
examples:
  tutti exec ring.json --size 1KiB,1MiB,64MiB
  mpirun --oversubscribe -n 8 tutti exec ring.json --transport mpi
"""
SHOW_EXAMPLES = """\
examples:
  tutti show torus.json --size 64MB
  tutti show dgx_a100:2 -o network.html --no-open
"""
TRANSPORTS = ("shm", "mpi", "nccl")
DTYPES = ("float32", "float64", "int32", "int64")
"""`schedules.execution.data.DTYPES`."""

COMPLETION_EXAMPLES = """\
examples:
  eval "$(tutti completion bash)"                    # in ~/.bashrc
  tutti completion zsh > "${fpath[1]}/_tutti"        # once
"""


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
    """Return the parser; the parsed arguments hold the ``module`` that executes the command."""
    parser = OneLineParser(
        prog="tutti",
        description="Make schedules for collective communication, and prove how far each is from optimal.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tutti {installed_version()}")
    parser.set_defaults(module="help", command=None, parser=parser, commands={}, plugin=[])
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=OneLineParser)
    for add in (
        *(_run, _report, _synth, _verify, _simulate),
        *(_bound, _topology_command, _fit, _find, _show, _export, _import, _exec, _profile, _tune),
        *(_list, _model, _completion, _help),
    ):
        add(commands)
    return parser


def _command(commands: Any, name: str, module: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(module=module)
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file with a method, family, bound or solver of your own (docs/plugins.md)",
    )
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, one document a line")


def _topology(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    what = "such as torus:4x4 or nccl:FILE (see tutti list topologies), or a node-link JSON file"
    parser.add_argument("topology", nargs=nargs, help=what)


def _collective(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--collective",
        default=DEFAULT_COLLECTIVE,
        metavar="KIND",
        help=f"{', '.join(COLLECTIVES)}; default: {DEFAULT_COLLECTIVE}",
    )
    parser.add_argument(
        "--root", type=int, help="the root of a broadcast, reduce, gather or scatter; default: 0"
    )
    parser.add_argument("--shards", metavar="W,W,...", help="relative sizes of uneven shards")
    parser.add_argument(
        "--groups",
        metavar="R,R|R,R",
        help="groups of ranks that each do the collective; or dimensions, such as tp=8,dp=4 or "
        "tp=8:allreduce@64MB,dp=4:reduce-scatter@1GB (docs/groups.md)",
    )
    parser.add_argument(
        "--matrix",
        metavar="FILE|FORM",
        help="of an all-to-all: bytes from each rank (row) to each, a .csv or .npy file, or uniform, random, "
        "zipf:1.2, hot:0.5, block:8:0.5 (docs/all_to_all_v.md)",
    )


def _workers(parser: argparse.ArgumentParser, workers: str) -> None:
    parser.add_argument("--workers", type=int, metavar="N", help=workers)
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="the address of a Dask scheduler, or local:N (docs/cluster.md)"
    )


def _run(commands: Any) -> None:
    parser = _command(commands, "run", "run", "run an experiment, or continue it")
    parser.add_argument("config", type=_path, help="a TOML file")
    parser.add_argument("--out", type=_path, metavar="DIR", help="default: results/<name>")
    _workers(parser, "number of processes; default: as in the config")
    parser.add_argument("--fresh", action="store_true", help="start over instead of continuing")
    parser.add_argument(
        "--rejudge",
        action="store_true",
        help="keep the times that other versions of tutti made, and compute their bounds again",
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help="run only topologies, collectives or methods that match; * stands for any text",
    )
    parser.add_argument("--quiet", action="store_true", help="print only failures")


def _report(commands: Any) -> None:
    parser = _command(
        commands, "report", "report", "write the report of finished runs, with figures and tables for a paper"
    )
    parser.epilog, parser.formatter_class = REPORT_EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", type=_path, nargs="+", metavar="DIR", help="a folder that tutti run wrote")
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        metavar="FILE",
        help="the page; default: DIR/report.html, or report.html for several folders",
    )
    parser.add_argument(
        "--baseline", metavar="METHOD", help="show how many times faster than this one the others are"
    )
    parser.add_argument("--figures", type=_path, metavar="DIR", help="write every chart there, for papers")
    parser.add_argument(
        "--format", metavar="F,F,...", help="formats of the figures: svg, pdf, png; default: svg"
    )
    parser.add_argument("--latex", type=_path, metavar="DIR", help="write the tables there, with booktabs")


def _synth(commands: Any) -> None:
    parser = _command(commands, "synth", "synth", "make, verify and time one schedule")
    parser.epilog, parser.formatter_class = SYNTH_EXAMPLES, argparse.RawDescriptionHelpFormatter
    _topology(parser)
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="see tutti list methods; default: the best of all sensible methods, found in ten seconds",
    )
    _collective(parser)
    parser.add_argument(
        "--size", help=f"M, such as 64MB; default: the largest row of a file's matrix, else {DEFAULT_SIZE}"
    )
    parser.add_argument(
        "--chunks",
        type=int,
        metavar="C",
        help="chunks per shard; default: see tutti list methods",
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seeds", type=int, default=1, metavar="S", help="try seeds 0 to S-1 and keep the best; default: 1"
    )
    seeds.add_argument("--seed", type=int, metavar="N", help="try this seed only; default: 0")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="K=V",
        help="an option of the method; see tutti list methods",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        metavar="FILE",
        help=".json, .json.gz or .npz; or .rounds, which tacos writes while it runs, and resumes",
    )
    parser.add_argument(
        "--repair",
        type=_path,
        metavar="FILE",
        help="change the schedule in FILE, made for the whole network, where links of this one failed",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress on the terminal")
    _json(parser)


def _verify(commands: Any) -> None:
    summary = "replay a schedule, or run a program, and name the first fault"
    parser = _command(commands, "verify", "verify", summary)
    what = "a schedule: .json, .json.gz, .npz, .csv or .rounds; or a program as MSCCL XML"
    parser.add_argument("file", type=_path, help=what)
    parser.add_argument("--root", type=int, help="the root, if the program does not show it")
    _json(parser)


def _simulate(commands: Any) -> None:
    parser = _command(commands, "simulate", "simulate", "simulate the time of a schedule at a size")
    parser.add_argument("file", type=_path, help="a schedule: .json, .json.gz, .npz or .csv")
    parser.add_argument("--size", required=True, help="M, such as 1MB")
    parser.add_argument(
        "--slices",
        type=int,
        default=1,
        help="cut each message of a flow schedule into so many slices; default: 1",
    )
    parser.add_argument(
        "--store-and-forward",
        action="store_true",
        help="a rank or switch forwards a message only when all of it is there",
    )
    parser.add_argument(
        "--overlap-alpha", action="store_true", help="a link is free again while alpha passes"
    )
    _json(parser)


def _bound(commands: Any) -> None:
    parser = _command(commands, "bound", "bound", "prove lower bounds that no schedule can beat")
    _topology(parser, nargs="*")
    _collective(parser)
    parser.add_argument("--size", help="M, such as 1MB; without it, only bounds on bandwidth")
    parser.add_argument(
        "--lp",
        action="store_true",
        help="then solve linear programs too, most of which need --size: at most ten minutes each",
    )
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="recompute the certificates in a file that --json wrote"
    )
    _json(parser)


def _topology_command(commands: Any) -> None:
    summary = "describe a network: hosts, tiers of links, links of each rank, symmetries, bounds"
    parser = _command(commands, "topology", "topology", summary)
    _topology(parser)
    parser.add_argument("--sizes", default="1KB,1MB,1GB", help="sizes for the bounds; default: %(default)s")
    _json(parser)


def _fit(commands: Any) -> None:
    parser = _command(commands, "fit", "fit", "find alpha and bandwidth from measured times")
    what = (
        "output of nccl-tests (also the JSON of -J) or the OSU micro-benchmarks, or a CSV with "
        "source,destination,bytes,seconds"
    )
    parser.add_argument("file", type=_path, help=what)
    parser.add_argument(
        "--topology", metavar="NETWORK", help="the network that -o writes with the measured values"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        metavar="FILE",
        help="a network file (.json) with the measured values; by default with the pairs of the CSV",
    )
    parser.add_argument(
        "--pair",
        metavar="A,B",
        help="the two ranks that were measured, if the table names none; implies --alike",
    )
    parser.add_argument(
        "--alike", action="store_true", help="links that are alike in NETWORK get the same measured values"
    )
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="take the in-place times of nccl-tests, not those out of place",
    )
    parser.add_argument(
        "--tolerance",
        default="10%",
        metavar="SHARE",
        help="name sizes that deviate from the fit by more than this; default: %(default)s",
    )
    _json(parser)


def _find(commands: Any) -> None:
    parser = _command(
        commands, "find", "find", "find the best networks with a given number of ranks and links per rank"
    )
    parser.epilog, parser.formatter_class = FIND_EXAMPLES, argparse.RawDescriptionHelpFormatter
    how_many = parser.add_mutually_exclusive_group(required=True)
    how_many.add_argument("--nodes", type=int, metavar="N", help="number of ranks")
    how_many.add_argument(
        "--up-to", type=int, metavar="N", help="do it for all numbers of ranks up to N, and write to -o DIR"
    )
    parser.add_argument("--degree", type=int, required=True, metavar="D", help="links out of each rank")
    parser.add_argument("--bidirectional", action="store_true", help="only networks whose links go both ways")
    parser.add_argument(
        "--max-diameter", type=int, metavar="HOPS", help="only networks of at most this diameter"
    )
    parser.add_argument("--build", action="store_true", help="make and verify every schedule")
    parser.add_argument("--all-to-all", action="store_true", help="find the time of an all-to-all on each")
    parser.add_argument(
        "--mix", type=float, metavar="SHARE", help="the share of all-to-alls among the collectives, 0 to 1"
    )
    parser.add_argument(
        "--time-limit", default="60s", help="limit of the search for each all-to-all; default: %(default)s"
    )
    parser.add_argument(
        "--size", default="1MiB", help="M; with --up-to several, separated by commas; default: %(default)s"
    )
    parser.add_argument(
        "--bandwidth", default="100Gb/s", help="bandwidth of a node, over all its links; default: %(default)s"
    )
    parser.add_argument("--alpha", default="10us", help="latency of a step; default: %(default)s")
    parser.add_argument(
        "-o", "--output", type=_path, metavar="DIR", help="the folder for --up-to; what is there is continued"
    )
    _workers(parser, "with --up-to: number of processes; default: one per core")
    _json(parser)


def _show(commands: Any) -> None:
    summary = "draw a network, or play a schedule on it, as a page for the browser"
    parser = _command(commands, "show", "show", summary)
    parser.epilog, parser.formatter_class = SHOW_EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "what",
        help="a schedule (.json, .json.gz, .npz, .csv), a program (.xml, .json) or a network, as for synth",
    )
    parser.add_argument("--size", help="M, such as 1MB; default: what the schedule was made for, or 1MB")
    parser.add_argument(
        "-o", "--output", type=_path, metavar="FILE", help="the page; default: NAME.show.html in this folder"
    )
    parser.add_argument("--no-open", action="store_true", help="only write the page")


def _export(commands: Any) -> None:
    parser = _command(
        commands, "export", "export", "write a schedule in the format of a runtime or simulator"
    )
    parser.add_argument("file", type=_path, help="a schedule: .json, .json.gz, .npz or .csv")
    _format(
        parser,
        "what to write: msccl, mscclpp, chakra, goal, nccl-graph, graphml, csv or listing",
    )
    _exported(parser, "FILE")


def _tune(commands: Any) -> None:
    parser = _command(
        commands,
        "tune",
        "tune",
        "write the fastest schedules for a range of sizes as files that a runtime loads",
    )
    parser.add_argument(
        "topology", help="a network, as for synth; for msccl and mscclpp its switches only forward"
    )
    parser.add_argument("--collective", choices=COLLECTIVES, default="allreduce", help="default: allreduce")
    parser.add_argument("--sizes", default="1KB..1GB", help="a range or a list of sizes; default: 1KB..1GB")
    parser.add_argument(
        "--methods", help="names, separated by commas; default: all methods that take seconds"
    )
    parser.add_argument("--time-limit", default="20s", help="limit for each method; default: 20s")
    parser.add_argument(
        "--files", type=int, default=4, help="write at most so many files; default: 4, as many as MSCCL loads"
    )
    parser.add_argument("--workers", type=int, help="processes; default: one per core")
    _format(
        parser,
        "what to write: msccl, mscclpp, or rules for a tuner: nccl-tuner, ompi-rules (docs/export.md); "
        "default: msccl",
        default="msccl",
    )
    _exported(parser, "DIR")


def _import(commands: Any) -> None:
    parser = _command(commands, "import", "importing", "turn a runtime's program into a schedule")
    parser.add_argument("file", type=_path, help="a program")
    _format(parser, "what it is: msccl (docs/export.md)")
    parser.add_argument(
        "--topology", help="the network; default: a link between any two ranks that exchange data"
    )
    parser.add_argument("--bandwidth", help="bandwidth of each link if no topology is given; default: 50GB/s")
    parser.add_argument("--alpha", help="latency of each link if no topology is given; default: 0.5us")
    parser.add_argument("--root", type=int, help="the root, if the file does not show it")
    parser.add_argument(
        "-o", "--output", type=_path, metavar="FILE", required=True, help=".json, .json.gz or .npz"
    )
    _json(parser)


def _format(parser: argparse.ArgumentParser, what: str, default: str | None = None) -> None:
    parser.add_argument("--format", required=default is None, default=default, metavar="NAME", help=what)


def _exported(parser: argparse.ArgumentParser, metavar: str) -> None:
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="K=V",
        help="an option of the format; see docs/export.md",
    )
    parser.add_argument(
        "-o", "--output", type=_path, metavar=metavar, required=True, help="the file or folder to write"
    )
    _json(parser)


def _ranks(parser: argparse.ArgumentParser, repeats: int) -> None:
    parser.add_argument("--ranks", type=int, metavar="N", help="number of processes")
    parser.add_argument(
        "--transport",
        choices=TRANSPORTS,
        default=TRANSPORTS[0],
        metavar="|".join(TRANSPORTS),
        help="what carries the data; start mpi under mpirun, nccl under torchrun; default: %(default)s",
    )
    parser.add_argument(
        "--warmup", type=int, default=2, metavar="W", help="untimed runs before the timed ones; default: 2"
    )
    parser.add_argument(
        "--repeats", type=int, default=repeats, metavar="R", help="timed runs; default: %(default)s"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the data; default: 0")
    parser.add_argument(
        "--timeout", default="30s", help="how long a rank may wait for the others; default: %(default)s"
    )


def _exec(commands: Any) -> None:
    summary = "run a schedule or program on real processes, check its result, and time it"
    parser = _command(commands, "exec", "execution", summary)
    parser.epilog, parser.formatter_class = EXEC_EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "file",
        type=_path,
        help="a schedule (.json, .json.gz, .npz, .csv), an MSCCL XML (.xml) or a plan of MSCCL++ (.json)",
    )
    parser.add_argument(
        "--size", default="1KiB,1MiB,64MiB", help="M, or several, separated by commas; default: %(default)s"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, default=DTYPES[0], help="type of an element; default: %(default)s"
    )
    _ranks(parser, 10)
    parser.add_argument(
        "--against-model",
        metavar="TOPOLOGY",
        help="also simulate it on this network, such as a file of tutti profile",
    )
    _json(parser)


def _profile(commands: Any) -> None:
    summary = "measure alpha and bandwidth between all ranks, and write a network file"
    parser = _command(commands, "profile", "profiling", summary)
    parser.add_argument(
        "--sizes", default="4KB,64KB,256KB", help="sizes of the messages; default: %(default)s"
    )
    _ranks(parser, 5)
    parser.add_argument("-o", "--output", type=_path, metavar="FILE", help="the network file to write")
    _json(parser)


def _model(commands: Any) -> None:
    summary = "write one of tutti's linear or mixed-integer programs as an MPS or LP file"
    parser = _command(commands, "model", "model", summary)
    parser.add_argument(
        "model",
        help='a program with its options, such as all-to-all or "sccl chunks=2"; an unknown name lists them',
    )
    _topology(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=_path,
        metavar="FILE",
        required=True,
        help="the file to write, ending in .mps or .lp",
    )
    parser.add_argument("--large", action="store_true", help="write it even if it takes more than 4 GB")
    _json(parser)


def _list(commands: Any) -> None:
    parser = _command(
        commands, "list", "listing", "list the methods, the families of networks or the solvers"
    )
    choices = ["methods", "topologies", "solvers"]
    parser.add_argument("what", nargs="?", choices=choices, metavar="|".join(choices), help="what to list")
    parser.set_defaults(parser=parser)
    _json(parser)


def _completion(commands: Any) -> None:
    summary = "print a script that completes tutti's commands and options in a shell"
    parser = _command(commands, "completion", "completion", summary)
    parser.epilog, parser.formatter_class = COMPLETION_EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=["bash", "zsh"], metavar="bash|zsh", help="which shell")


def _help(commands: Any) -> None:
    parser = _command(commands, "help", "help", "explain a command")
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="default: a list of all commands")
    parser.set_defaults(commands=commands.choices)
