"""How hosts become a network: the keys of a text that the readers share."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tutti.topologies.errors import InputError


class Joining(NamedTuple):
    """The keys of a text that say how hosts are joined to a network.

    There are `hosts` copies of a host, and `fabric` is one ``switch`` or ``rails``. `pcie` says whether
    ``all`` of PCIe stays or only what is ``needed`` (`machine`). `nvlink` says whether an NVSwitch joins the
    GPUs of each ``host``, or those of ``all`` hosts, as in a rack. `alpha` is one for all links or three:
    between GPUs, PCIe, network.
    """

    hosts: int = 1
    fabric: str = "switch"
    pcie: str = "needed"
    nvlink: str = "host"
    alpha: list[Fraction] | None = None


CHOICES = {"fabric": ("switch", "rails"), "pcie": ("needed", "all"), "nvlink": ("host", "all")}
MOST_HOSTS = 2**16


def joining_of(text: str, hosts: int, words: dict[str, str], alpha: list[Fraction] | None) -> Joining:
    """Return how hosts are joined, from the keys of a text.

    Raises
    ------
    InputError
        If a word is none that its key allows, or the number of hosts is out of range.
    """
    if not 1 <= hosts <= MOST_HOSTS:
        raise InputError(f"{text}: hosts={hosts}; from 1 to {MOST_HOSTS} are joined")
    for key, word in words.items():
        if word not in CHOICES[key]:
            raise InputError(f"{text}: {key}={word[:20]}; allowed: {', '.join(CHOICES[key])}")
    for key in ("fabric", "nvlink"):
        if key in words and hosts == 1:
            raise InputError(f"{text}: {key}= says how hosts are joined; give hosts=2 or more with it")
    return Joining(hosts, alpha=alpha, **words)
