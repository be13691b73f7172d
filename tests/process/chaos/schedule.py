"""What is done to whom, and when: a function of one seed, known before anything runs.

A moment is a place in the run, not a time: a version that the authority's log has reached, or so many lines of that log after
the fault before. The latter is what comes in the middle of a recovery. After it is a short delay, so that faults do not all
fall just after a saved checkpoint, which is what most lines are about.
"""
import dataclasses
import enum
import random


class Kind(enum.Enum):
    """What is done, and how often beside the others."""
    KILL_NODE = ("kill -9 of a node", 6)
    PAUSE_NODE = ("a node stands still for less than a lease", 3)
    FREEZE_NODE = ("a node stands still for longer than a lease", 3)
    KILL_SERVER = ("kill -9 of a server", 3)
    KILL_SERVERS = ("kill -9 of all servers", 2)
    KILL_ALL = ("kill -9 of every process", 1)
    PAUSE_SERVER = ("a server stands still for less than a lease", 3)
    TERMINATE_SERVER = ("SIGTERM to a server", 2)

    def __init__(self, words, weight):
        self.words = words
        self.weight = weight


OF_NODES = (Kind.KILL_NODE, Kind.PAUSE_NODE, Kind.FREEZE_NODE)
OF_ONE_SERVER = (Kind.KILL_SERVER, Kind.PAUSE_SERVER, Kind.TERMINATE_SERVER)
PAUSES = {Kind.PAUSE_NODE: (0.1, 0.6), Kind.FREEZE_NODE: (1.5, 2.2), Kind.PAUSE_SERVER: (0.1, 0.6)}  # leases
AFTER_LINES = 0.3  # of the faults come by lines
LINES_MAX = 12  # a resume of all servers and nodes is about as many
DELAY_MAX = 0.1  # seconds
BACK_MAX = 1.2  # leases until what has ended is started again, where that is not at once
FIRST, LAST = 0.03, 0.95  # of the run: all faults lie between


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int  # from 1
    kind: Kind
    target: int | None  # the node or the shard; None: all
    version: int  # comes when this has been reached ...
    lines: int | None  # ... or, instead, so many lines of the authority's log after the one before
    delay: float  # seconds, after that
    pause: float | None  # leases that it stands still
    back: float  # leases after which what has ended is started again

    def __str__(self):
        who = "" if self.target is None else f" ({'node' if self.kind in OF_NODES else 'shard'} {self.target})"
        return self.kind.words + who + ("" if self.pause is None else f", {self.pause:.2f} leases")


def schedule(seed, count, versions, nodes, shards):
    """The faults of a run of that many versions, in their order."""
    draw = random.Random(seed)
    kinds = []
    while len(kinds) < count:  # decks, so that all kinds come about as often as they are to
        deck = [kind for kind in Kind for _ in range(kind.weight)]
        draw.shuffle(deck)
        kinds += deck
    faults = []
    for number, kind in enumerate(kinds[:count], 1):
        share = FIRST + (LAST - FIRST) * (number - 1 + draw.random()) / count
        target = draw.randrange(nodes) if kind in OF_NODES else draw.randrange(shards) if kind in OF_ONE_SERVER else None
        by_lines = number > 1 and draw.random() < AFTER_LINES
        faults.append(Fault(
            number, kind, target, version=int(share * versions), lines=draw.randint(1, LINES_MAX) if by_lines else None,
            delay=draw.uniform(0, DELAY_MAX), pause=draw.uniform(*PAUSES[kind]) if kind in PAUSES else None,
            back=draw.choice((0.0, draw.uniform(0, BACK_MAX)))))
    return faults
