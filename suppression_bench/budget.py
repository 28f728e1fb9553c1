"""Time that a run may take: a duration read, and cells admitted while they fit into it."""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from generators.dataset import UserError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str, flag: str = "--budget") -> float:
    """The seconds of a duration: 90s, 30m, 1.5h, 1h30m.

    Raises:
        UserError: it is no duration, or none at all.

    >>> seconds("90s"), seconds("30m"), seconds("1h30m")
    (90.0, 1800.0, 5400.0)
    """
    if not re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        raise UserError(f"{flag} {text!r} is no duration: write a number and s, m, h or d, as in 90s, 30m or 1h30m")
    found = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([smhd])", text))
    if not 0 < found < math.inf:
        raise UserError(f"{flag} {text!r}: it must be longer than nothing")
    return found


def words(duration: float) -> str:
    """A duration for people.

    >>> [words(one) for one in (0.4, 59.6, 95, 3540, 7300, 400_000)]
    ['1 s', '60 s', '2 min', '59 min', '2.0 h', '4.6 days']
    """
    if duration < 90:
        return f"{max(1, math.ceil(duration))} s"
    if duration < 5400:
        return f"{round(duration / 60)} min"
    return f"{duration / 3600:.1f} h" if duration < 172_800 else f"{duration / 86400:.1f} days"


@dataclass
class Budget:
    """Admits a cell while the time gone plus its estimate fits; a shorter one may still fit behind one that did not.

    A cell whose time nobody can say is admitted as long as there is time left.

    Arguments:
        most: seconds in all.
        estimate: the seconds of a cell, or None.
        began: on the clock.
        clock: seconds; a test hands in its own.

    >>> budget = Budget(10, lambda cell: cell, began=0, clock=iter([0, 7, 7]).__next__)
    >>> [budget.admits(cell) for cell in (6, 4, 3)], budget.left_out
    ([True, False, True], [(4, 4)])
    """

    most: float
    estimate: Callable
    began: float
    clock: Callable[[], float] = time.monotonic
    left_out: list[tuple] = field(default_factory=list)  # cells with their estimates

    def admits(self, cell) -> bool:
        """Whether a cell may start now; noted if it may not."""
        wanted = self.estimate(cell)
        gone = self.clock() - self.began
        if gone + (wanted or 0) <= self.most and (wanted is not None or gone < self.most):
            return True
        if wanted == 0:  # finished: it costs nothing
            return True
        self.left_out.append((cell, wanted))
        return False
