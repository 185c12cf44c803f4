"""Stages on threads of their own, joined by bounded queues. One that fails stops the others at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import torch

_JOIN_S = 30.0


class Stopped(Exception):  # noqa: N818 - an ending, not an error
    """The stages were stopped; whoever works or waits gives up."""


class Item(Protocol):
    """What goes through a queue."""

    @property
    def epoch(self) -> int:
        """Counts interrupts; what belongs to an earlier one is dropped."""
        ...


T = TypeVar("T", bound=Item)


class Crew:
    """The stages of one session.

    Attributes:
        changed: lock of all that the stages share, and what tells of a change of it.
        epoch: see `Item`.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.epoch = 0
        self._error: BaseException | None = None
        self._stopped = False
        self._threads: list[threading.Thread] = []
        self._watchers: list[Callable[[], None]] = []

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Runs a stage to its end on a thread."""
        thread = threading.Thread(target=self._run, args=(work,), name=f"ditto {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, error: BaseException | None = None) -> None:
        """Ends all stages; the first error is kept."""
        with self.changed:
            if not self._stopped:
                self._stopped, self._error = True, error
            self.tell()

    def check(self) -> None:
        """Raises the error that stopped the stages, or `Stopped`."""
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise Stopped

    def is_current(self, item: Item) -> bool:
        """Whether no interrupt came since the item was made."""
        return item.epoch == self.epoch

    def tell(self) -> None:
        """Wakes all who wait; the lock is held."""
        self.changed.notify_all()
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Calls a function, which must not block, at every change.

        Returns:
            What ends it.
        """

        def end() -> None:
            with self.changed:
                self._watchers.remove(watcher)

        with self.changed:
            self._watchers.append(watcher)
        return end

    def join(self) -> bool:
        """Waits for the threads' end; False where one does not come to it in half a minute."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_S)
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            with torch.inference_mode():  # a mode of the thread
                work()
        except Stopped:
            return
        except BaseException as error:  # told to whoever takes or pushes
            self.stop(error)


class Belt(Generic[T]):
    """A queue from one stage to the next.

    Args:
        crew: the stages.
        capacity: items that it holds; who puts more waits.
    """

    def __init__(self, crew: Crew, capacity: int) -> None:
        self._crew, self._capacity = crew, capacity
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        """Adds an item, once there is room; drops it where an interrupt came.

        Raises:
            Stopped: the stages were stopped; or the error that did.
        """
        crew = self._crew
        with crew.changed:
            while crew.is_current(item) and len(self._items) >= self._capacity:
                crew.check()
                crew.changed.wait()
            crew.check()
            if crew.is_current(item):
                self._items.append(item)
                crew.tell()

    def take(self) -> T:
        """The oldest item, once there is one.

        Raises:
            Stopped: see `put`.
        """
        with self._crew.changed:
            while (item := self.poll()) is None:
                self._crew.changed.wait()
            return item

    def poll(self) -> T | None:
        """The oldest item, or None.

        Raises:
            Stopped: see `put`.
        """
        with self._crew.changed:
            self._crew.check()
            if not self._items:
                return None
            self._crew.tell()
            return self._items.popleft()

    def clear(self) -> None:
        """Drops all items."""
        with self._crew.changed:
            self._items.clear()
            self._crew.tell()

    def __len__(self) -> int:
        """Items held."""
        return len(self._items)
