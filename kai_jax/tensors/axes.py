"""Fixed places on the axes, and the numbers that stand where there is no index."""

from enum import IntEnum

NONE = -1  # an index of nothing
UNLIMITED = -1.0  # a quota or limit

GPU, CPU, MEMORY, PODS = range(4)  # on R
QUEUE_CPU, QUEUE_MEMORY, QUEUE_GPU = range(3)  # on the leading axis of queue amounts

UNKNOWN_TOPOLOGY, MISCONFIGURED_TOPOLOGY = -2, -3  # in TreeNodes.topology


class Elastic(IntEnum):
    """Where a job stands against the minimums of its podsets: columns of Jobs.slot (spec 02 §5.1)."""

    BELOW = 0  # some podset is below its minimum
    EXACT = 1
    ABOVE = 2
