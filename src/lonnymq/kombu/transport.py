"""One connection of kombu: delivers messages, in a blocking call or in an event loop."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from typing import Any

import psycopg
from kombu.transport import virtual

from lonnymq.adapters.listener import NoListening
from lonnymq.errors import QueueClosed
from lonnymq.kombu import broker as brokers
from lonnymq.kombu import channel as channel_module
from lonnymq.kombu.address import dsn_of, hide_password, shown, with_password
from lonnymq.kombu.broker import Broker
from lonnymq.kombu.channel import Temporary
from lonnymq.kombu.leases import OUTAGES, Leases
from lonnymq.kombu.notifications import Notifications, Waker, wait_for
from lonnymq.kombu.options import Options, lease_of, read_options
from lonnymq.kombu.topology import TOUCH_S

log = logging.getLogger("lonnymq.kombu")

MAIL_BATCH = 100
MAIL_POLL_S = 1.0
MAIL_POLL_LISTENING_S = 5.0
LISTEN_AGAIN_S = 5.0
LONGEST_PAUSE_S = 1.0


class Transport(virtual.Transport):  # type: ignore[misc]
    """For `lonnymq+postgresql://user:password@host:port/database?sslmode=verify-full`."""

    Channel = channel_module.Channel
    can_parse_url = True
    default_port = None
    driver_type = "lonnymq"
    driver_name = "psycopg"
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset({"direct", "topic", "fanout"}), heartbeats=False
    )
    connection_errors = (*virtual.Transport.connection_errors, *OUTAGES, QueueClosed)

    broker: Broker
    leases: Leases

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        hide_password(client)
        self.options: Options = read_options(client.transport_options or {})
        self.consumer = f"kombu {socket.gethostname()}:{os.getpid()}"[:255]
        self.temporary: dict[str, Temporary] = {}
        self._pid = os.getpid()
        self._is_open = False
        self._waker: Waker | None = None
        self._notifications: Notifications | None = None
        self._may_listen = True
        self._listen_again_at = float("-inf")
        self._is_notified = False
        self._inbox: deque[tuple[dict[str, Any], str]] = deque()
        self._mail_at = float("-inf")
        self._touch_at = float("-inf")
        self._failing_since: float | None = None
        self._loop: Any = None
        self._loop_files: list[int] = []
        self._timer: Any = None
        self._has_delivered = False

    def driver_version(self) -> str:
        return psycopg.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        url = with_password(uri, self.client.password)
        return shown(url, include_password=include_password, mask=mask)

    def establish_connection(self) -> Any:
        broker = brokers.acquire(dsn_of(self.client), self.options)
        try:
            settings = broker.prepare(install=self.options.install)
            lease = lease_of(self.options, settings)
        except BaseException:
            brokers.release(broker)
            raise
        self.broker = broker
        self._may_listen = self.options.listen is not False
        self._wake_channel = settings.notify_channel
        self.leases = Leases(broker.queue, lease)
        self._failing_since = None
        self._mail_at = self._touch_at = float("-inf")
        self._is_open = True
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        """Give back what was not acknowledged."""
        if os.getpid() != self._pid:
            self._leave_to_parent()
            return
        self.unregister_from_event_loop(connection, self._loop)
        try:
            super().close_connection(connection)
        finally:
            if self._is_open:
                self._is_open = False
                self.leases.close()
                self._inbox.clear()
                if self._notifications is not None:
                    self._notifications.close()
                    self._notifications = None
                brokers.release(self.broker)
            if self._waker is not None:
                self._waker.close()
                self._waker = None

    def _leave_to_parent(self) -> None:
        self.channels.clear()
        self._avail_channels.clear()
        if self._is_open:
            self._is_open = False
            self.leases.forget()
        if self._notifications is not None:
            self._notifications.leave_to_parent()

    # In a blocking call

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver what there is, or wait for it. Raises socket.timeout when the time is over."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while not self._deliver_next():
            left = LONGEST_PAUSE_S if ends_at is None else ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError("no message has come")
            self._pause(min(left, LONGEST_PAUSE_S, self._look_again_in()))
        while self._inbox:
            self._deliver_next()

    def _pause(self, seconds: float) -> None:
        waker = self._the_waker()
        listener = self._notifications
        if listener is not None and listener.is_broken:
            listener = None
        wait_for([waker.fileno(), *([] if listener is None else [listener.fileno()])], seconds)
        waker.clear()
        self.read_notifications()

    # In an event loop

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        self._loop = loop
        self._has_delivered = False
        self._watch_files()
        self.wake()

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if loop is not None:
            for file in self._loop_files:
                loop.remove_reader(file)
        self._loop_files = []

    def _on_event(self, *_: object) -> None:
        """Something woke the event loop: a notification, another thread, or the timer."""
        if self._loop is None or not self._is_open or self._has_delivered:
            return
        self._the_waker().clear()
        try:
            self.read_notifications()
            if self._deliver_next() and self._loop is not None:
                self._has_delivered = True
                self._loop.call_soon(self._on_next_turn)
                self.wake()  # the loop may be firing timers, and would wait before that
        finally:  # an error of a callback must not be the end
            self._arm()

    def _arm(self) -> None:
        """Be called again: by a file, or when it is time to look."""
        if self._loop is None or not self._is_open:
            return  # a callback has closed the connection
        self._watch_files()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(min(LONGEST_PAUSE_S, self._look_again_in()), self._on_event)

    def _on_next_turn(self) -> None:
        """What the callbacks of the last message have asked the loop to do is done before it waits again."""
        self._has_delivered = False
        self.wake()  # there may be more

    def _watch_files(self) -> None:
        listener = self._notifications
        files = [self._the_waker().fileno()]
        if listener is not None and not listener.is_broken:
            files.append(listener.fileno())
        if files != self._loop_files:
            for file in self._loop_files:
                self._loop.remove_reader(file)
            for file in files:
                self._loop.add_reader(file, self._on_event)
            self._loop_files = files

    # Both

    def wake(self) -> None:
        """A consumer may have room, or there is a new one. Any thread may call it."""
        if self._waker is not None or self._loop is not None:
            self._the_waker().wake()

    def look_for_mail(self) -> None:
        """There is a new consumer."""
        self._mail_at = self._touch_at = float("-inf")
        self.wake()

    def _the_waker(self) -> Waker:
        if self._waker is None:
            self._waker = Waker()
        return self._waker

    def read_notifications(self) -> None:
        """Remember what the notifications that have arrived are about."""
        listener = self._notifications
        if listener is None:
            return
        for notify in listener.read():
            if notify.channel == self._wake_channel:
                self._is_notified = True
            else:
                self._mail_at = float("-inf")
        if listener.is_broken:
            self._drop_listener()

    def _deliver_next(self) -> bool:
        """Deliver one message. Returns whether there was one. In an event loop Celery acknowledges between
        turns, so a second message must wait for the next one: the pool `solo` runs tasks while they are
        delivered.
        During an outage that is shorter than the lease the messages that are held are kept; then the error is
        raised.
        """
        try:
            self._fetch()
            self._failing_since = None
        except OUTAGES as error:
            now = time.monotonic()
            if self._failing_since is None:
                self._failing_since = now
                log.warning("the database is not available, trying again: %s", error)
            if now - self._failing_since > self.leases.lease:
                raise
            self._mail_at = now + MAIL_POLL_S
        if not self._inbox:
            return False
        message, queue = self._inbox.popleft()
        tag = message["properties"]["delivery_tag"]
        if queue not in self._callbacks and self.leases.has(tag):
            self.leases.release([tag])  # its consumer was cancelled
        else:
            self._deliver(message, queue)
        return True

    def _fetch(self) -> None:
        channels = [channel for channel in self.channels if channel._consumers]  # noqa: SLF001 - kombu's
        if not channels:
            return
        self.leases.start()
        self._listen()
        self._fetch_mail(channels)
        if self._inbox:
            return  # these take up room, which kombu counts only when they are delivered
        is_notified, self._is_notified = self._is_notified, False
        for channel in channels:
            found = channel.intake.look(
                channel.lanes(),
                channel.qos.room(),
                is_notified=is_notified,
                is_listening=self._notifications is not None,
            )
            self._inbox.extend(channel.received(found))

    def _fetch_mail(self, channels: list[channel_module.Channel]) -> None:
        mailboxes = {queue: channel for channel in channels for queue in channel.mailboxes()}
        now = time.monotonic()
        if not mailboxes:
            self._mail_at = float("inf")
            return
        if now >= self._touch_at:
            for queue, channel in mailboxes.items():
                channel.touch(queue)
            self._touch_at = now + TOUCH_S
        if now < self._mail_at:
            return
        wanted = [queue for queue, channel in mailboxes.items() if channel.qos.room() > 0]
        mail = self.broker.topology.take(wanted, MAIL_BATCH)
        listening = self._notifications is not None
        if not mail:
            self._mail_at = now + (MAIL_POLL_LISTENING_S if listening else MAIL_POLL_S)
        for found in reversed(mail):  # remote control does not wait for tasks
            self._inbox.extendleft(mailboxes[found.queue].received_mail([found]))

    def _look_again_in(self) -> float:
        """In how many seconds to look again, unless something wakes it."""
        if self._inbox and not self._has_delivered:
            return 0.0
        times: list[float] = [channel.intake.until for channel in self.channels if channel._consumers]  # noqa: SLF001
        return max(0.0, min([*times, self._mail_at, float("inf")]) - time.monotonic())

    def _listen(self) -> None:
        """Connect for notifications, before the steps of a sleep rely on them."""
        now = time.monotonic()
        if self._notifications is not None or not self._may_listen or now < self._listen_again_at:
            return
        self._listen_again_at = now + LISTEN_AGAIN_S
        address = self.options.listen if isinstance(self.options.listen, str) else dsn_of(self.client)
        try:
            listener = Notifications.connect(address, self._wake_channel)
        except NoListening:
            self._may_listen = False
            return
        if listener is None:
            return
        if not listener.also(self.broker.topology.notify_channel):
            listener.close()
            return
        self._notifications = listener
        self._restart()

    def _drop_listener(self) -> None:
        if self._notifications is not None:
            if self._loop is not None and len(self._loop_files) > 1:
                self._loop.remove_reader(self._loop_files.pop())
            self._notifications.close()
            self._notifications = None
            self._restart()

    def _restart(self) -> None:
        self._mail_at = float("-inf")
        for channel in self.channels:
            channel.intake.restart()
