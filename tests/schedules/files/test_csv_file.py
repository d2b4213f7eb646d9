"""Schedules as CSV are read like the same JSON; errors name the line."""

from fractions import Fraction

import pytest

from tutti.schedules import Clock, collective
from tutti.schedules.cost import step_cost
from tutti.schedules.files.schedule_file import content_hash, from_document, read_schedule, write_schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import VerificationError, verify
from tutti.topologies import InputError

HEAD = "# topology: uniring:3\n# collective: allgather\n"
NAMES = "chunk,src,dst,order\n"
ROWS = [(0, 0, 1, 1), (1, 1, 2, 1), (2, 2, 0, 1), (0, 1, 2, 2), (1, 2, 0, 2), (2, 0, 1, 2)]
GOOD = HEAD + NAMES + "".join(",".join(map(str, row)) + "\n" for row in ROWS)


@pytest.fixture
def read(tmp_path):
    def read(text, encoding="utf-8"):
        path = tmp_path / "plan.csv"
        path.write_bytes(text.encode(encoding))
        return read_schedule(path)

    return read


def test_it_is_the_schedule_that_the_same_json_is(read):
    names = ("chunk", "src", "dst", "order")
    document = {
        "format": "tutti.schedule/1",
        "topology": "uniring:3",
        "collective": "allgather",
        "clock": "step",
        "chunks": 1,
        "transfers": dict(zip(names, map(list, zip(*ROWS, strict=True)), strict=True)),
    }
    schedule = read(GOOD)
    assert content_hash(schedule) == content_hash(from_document(document))
    verify(schedule)
    assert (step_cost(schedule).tl_steps, step_cost(schedule).tb) == (2, Fraction(2, 3))


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,  # the mark with which spreadsheets begin UTF-8
        GOOD.replace(",", " , "),
        GOOD.replace("chunk,src", '"chunk","src"'),
        GOOD.replace(NAMES, "# written by hand\n\n" + NAMES) + "\n\n",
        GOOD.replace("# topology: ", "#topology:"),
        GOOD.replace("allgather", '{"kind": "allgather", "num_ranks": 3}'),
        HEAD + "order,dst,src,chunk\n" + "".join(f"{o},{d},{s},{c}\n" for c, s, d, o in ROWS),
    ],
)
def test_programs_differ_in_how_they_write_it(read, text):
    assert content_hash(read(text)) == content_hash(read(GOOD))


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("true", "false"), ("True", "False")])
def test_rows_may_reduce(read, yes, no):
    """Rank 1 sends its data, which are added, and gets the sum back."""
    head = "# topology: complete:2\n# collective: allreduce\nchunk,src,dst,order,reduce\n"
    schedule = read(f"{head}0,1,0,1,{yes}\n0,0,1,2,{no}\n1,1,0,1,{yes}\n1,0,1,2,{no}\n")
    assert schedule.reduce.tolist() == [True, False, True, False]


def test_times_flows_counts_and_links_are_told_as_in_json(read):
    timed = read(
        '# topology: ring:4\n# collective: {"kind": "broadcast", "root": 0}\n# clock: time\n# tick: 1ns\n'
        "# size_bytes: 1e3\n# chunks: 2\nchunk,count,src,dst,order\n0,2,0,1,0\n0,2,0,3,0\n0,2,1,2,600\n"
    )
    assert (timed.clock, timed.tick, timed.size) == (Clock.TIME, Fraction(1, 10**9), 1000)
    assert (len(timed.chunks), timed.count.tolist()) == (2, [2, 2, 2])
    verify(timed)
    flow = read(
        "# topology: complete:2?links=2\n# collective: broadcast\n# clock: flow\n"
        "chunk,src,dst,route\n0,0,1,1\n"
    )
    assert (flow.clock, flow.order, flow.route.tolist()) == (Clock.FLOW, None, [1])


WRONG = [
    (GOOD.replace("# topology: uniring:3\n", ""), "plan.csv: no line '# topology: ...'"),
    (GOOD.replace("# collective: allgather\n", ""), "plan.csv: no line '# collective: ...'"),
    (
        GOOD.replace("topology", "topolgy"),
        "plan.csv, line 1: unknown key 'topolgy'; did you mean 'topology'?",
    ),
    (
        GOOD.replace("uniring", "unirnig"),
        "plan.csv: topology 'unirnig:3': unknown family 'unirnig'; did you mean",
    ),
    (HEAD + GOOD, "plan.csv, line 3: 'topology' occurs twice"),
    (HEAD + "# chunks: 1e999\n" + NAMES, "plan.csv, line 3: the number 1e999 is out of range"),
    (HEAD + "# chunks: many\n" + NAMES, "plan.csv: chunks must be an object, not 'many'"),
    (HEAD, "plan.csv: no line of column names, such as chunk,src,dst,order"),
    (GOOD.replace(",order", ",order,reduce"), "plan.csv, line 4: 4 values for 5 columns"),
    (HEAD + "chunk,src,dst\n0,0,1\n", "plan.csv, line 3: no column 'order'; there are chunk, src, dst"),
    (GOOD.replace("src", "source"), "plan.csv, line 3: unknown column 'source'; did you mean 'src'?"),
    (GOOD.replace("dst", "src"), "plan.csv, line 3: column 'src' occurs twice"),
    (HEAD + ",".join(["0", "0", "1", "1"]), "plan.csv, line 3: unknown column '0'"),
    (GOOD.replace("1,2,0,2", "1,2,0"), "plan.csv, line 8: 3 values for 4 columns"),
    (GOOD.replace("1,2,0,2", "1,2,7,2"), r"plan.csv, line 8: dst is 7; allowed: 0\.\.2"),
    (GOOD.replace("1,2,0,2", "1,-1,0,2"), r"plan.csv, line 8: src is -1; allowed: 0\.\.2"),
    (GOOD.replace("1,2,0,2", "3,2,0,2"), r"plan.csv, line 8: chunk is 3; allowed: 0\.\.2"),
    (GOOD.replace("1,2,0,2", "1,2,0,-2"), "plan.csv, line 8: order is -2; allowed: at least 0"),
    (GOOD.replace("1,2,0,2", "1,2,0,two"), "plan.csv, line 8: order is 'two'; it must be an integer"),
    (GOOD.replace("1,2,0,2", "1,2,0,2.0"), "plan.csv, line 8: order is '2.0'; it must be an integer"),
    (GOOD.replace("1,2,0,2", "1,2,0,"), "plan.csv, line 8: order is ''; it must be an integer"),
    (GOOD.replace("1,2,0,2", "1,2,0,1_0"), "plan.csv, line 8: order is '1_0'; it must be an integer"),
    (GOOD.replace("1,2,0,2", f"1,2,0,{2**63}"), "plan.csv, line 8: order does not fit 64 bits"),
    (GOOD.replace("1,2,0,2", f"1,2,0,{'9' * 5000}"), "plan.csv, line 8: order is '999"),
    (GOOD.replace("1,2,0,2", "1,2,1,2"), "plan.csv, line 8: src is 2: no link leads from there to 1"),
    (GOOD.replace("1,2,0,2", '1,2,"0,2'), "plan.csv, line 9: not CSV: unexpected end of data"),
    (
        HEAD + "chunk,src,dst,order,reduce\n0,0,1,1,no\n",
        "plan.csv, line 4: reduce is 'no'; it must be true or false",
    ),
    (HEAD + "# clock: flow\n" + NAMES + "0,0,1,1\n", "transfers.order has no meaning in the flow clock"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_wrong_is_said_in_one_line_with_its_number(read, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_whether_it_is_right_is_for_verify_to_say(read):
    with pytest.raises(VerificationError, match="transfer 3"):
        verify(read(GOOD.replace("0,1,2,2", "2,1,2,2")))


def test_it_is_not_written(tmp_path, read):
    with pytest.raises(InputError, match=r"a schedule file's name ends in .json, .json.gz or .npz$"):
        write_schedule(read(GOOD), tmp_path / "again.csv")


def test_collectives_of_other_ranks_are_refused(read):
    assert read(GOOD).collective == collective("allgather", 3)
    with pytest.raises(InputError, match="collective: num_ranks is 4; the topology has 3"):
        read(GOOD.replace("allgather", '{"kind": "allgather", "num_ranks": 4}'))


def test_it_can_be_timed(read):
    """Two hops of M/3 each take 2 (0.5 us + 20 us) at 3 MB."""
    assert simulate(read(GOOD), Fraction(3 * 10**6)).time == pytest.approx(41e-6)
