"""One channel of kombu: declares, publishes, acknowledges."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from queue import Empty
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments

from lonnymq.commands import Delivery
from lonnymq.errors import BrokenContent, InvalidField
from lonnymq.kombu.envelope import content_of, is_expired, message_of, opened, priority_of, sealed
from lonnymq.kombu.intake import Intake
from lonnymq.kombu.topology import Binding, Mail
from lonnymq.message_options import TEXT_MAX_BYTES

if TYPE_CHECKING:
    from lonnymq.kombu.transport import Transport

log = logging.getLogger("lonnymq.kombu")

UNLIMITED_BATCH = 10  # how many messages at once, for a consumer without a prefetch count
LARGEST_BATCH = 100
PAGE = 1000
MAILBOX = "mailbox"
"""In the delivery info: the temporary queue that the message came from."""


@dataclass
class Temporary:
    """A temporary queue that was declared here, so that it can be declared again."""

    expires_ms: int | None
    bindings: set[Binding] = field(default_factory=set)


class QoS(virtual.QoS):  # type: ignore[misc]
    """The prefetch count, and which messages the channel has delivered."""

    def room(self) -> int:
        """How many more messages may be delivered now."""
        if not self.can_consume():
            return 0
        most = self.can_consume_max_estimate()
        return UNLIMITED_BATCH if most is None else min(int(most), LARGEST_BATCH)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self.ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Give back what was delivered and not acknowledged."""
        self._flush()
        delivered = dict(self._delivered)
        self._delivered.clear()
        self.channel.give_back(delivered)
        return []

    def restore_unacked_once(self, stderr: object = None) -> None:
        self._on_collect.cancel()
        self.restore_unacked()


class Channel(virtual.Channel):  # type: ignore[misc]
    """A queue that is durable is a lane. One that comes and goes with a process is kept in the topology."""

    QoS = QoS
    supports_fanout = True
    connection: Transport

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._broker = connection.broker
        self._topology = connection.broker.topology
        self._options = connection.options
        self._leases = connection.leases
        self.intake = Intake(
            self._broker.queue, self._leases.lease, connection.consumer, connection.read_notifications
        )

    # Queues, exchanges and bindings

    def prepare_queue_arguments(self, arguments: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        prepared: dict[str, Any] = to_rabbitmq_queue_arguments(arguments, **kwargs)
        return prepared

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        **kwargs: Any,
    ) -> Any:
        name = queue or f"amq.gen-{uuid4()}"
        if passive and not self._topology.exists(name):
            raise ChannelError(f"NOT_FOUND - no queue {name!r}", (50, 10), "Channel.queue_declare", "404")
        if passive:
            return queue_declare_ok_t(name, self._size(name), 0)
        _check_name(name)
        is_temporary = bool(kwargs.get("exclusive") or kwargs.get("auto_delete"))
        expires_ms = (kwargs.get("arguments") or {}).get("x-expires")
        if is_temporary:
            self.connection.temporary[name] = Temporary(expires_ms)
        self._topology.declare(name, is_temporary=is_temporary, expires_ms=expires_ms)
        return queue_declare_ok_t(name, 0, 0)

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str | None = "",
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().queue_bind(queue, exchange, routing_key, arguments, **kwargs)
        name = exchange or "amq.direct"
        binding = Binding(name, routing_key or "", self.typeof(name).type, queue)
        if queue in self.connection.temporary:
            self.connection.temporary[queue].bindings.add(binding)
        self._topology.bind(binding)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        """kombu's part for transports with fanout: `queue_bind` has done it."""

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str | None = "",
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().queue_unbind(queue, exchange, routing_key, arguments, **kwargs)
        self._topology.unbind(queue, exchange or "amq.direct", routing_key or "")

    def queue_delete(
        self,
        queue: str,
        if_unused: bool = False,
        if_empty: bool = False,
        **kwargs: Any,
    ) -> None:
        if if_empty and self._size(queue):
            return
        if not self._topology.is_temporary(queue):
            self._purge(queue)
        self.connection.temporary.pop(queue, None)
        self._topology.delete(queue)
        self.state.queue_bindings_delete(queue)

    def exchange_delete(
        self,
        exchange: str,
        if_unused: bool = False,
        nowait: bool = False,
    ) -> None:
        """The queues that are bound to it stay: others may use them."""
        for found in self._topology.bindings(exchange):
            self._topology.unbind(found.queue, exchange, found.routing_key)
        self.state.exchanges.pop(exchange, None)

    def get_table(self, exchange: str) -> list[tuple[str, str | None, str]]:
        """The bindings of all processes."""
        kind = self.typeof(exchange)
        return [
            kind.prepare_bind(found.queue, exchange, found.routing_key, None)
            for found in self._topology.bindings(exchange)
        ]

    def typeof(self, exchange: str, default: str = "direct") -> Any:
        """The type of an exchange that another process has declared is that of its bindings."""
        if exchange not in self.state.exchanges:
            for found in self._topology.bindings(exchange):
                return self.exchange_types[found.type]
        return super().typeof(exchange, default)

    def _size(self, queue: str) -> int:
        if self._topology.is_temporary(queue):
            return self._topology.count(queue)
        self._broker.queue.dispatch()
        return sum(lane.waiting for lane in self._broker.queue.lanes() if lane.lane == queue)

    def _purge(self, queue: str) -> int:
        """Scheduled messages go, too. Those that a consumer holds stay."""
        if self._topology.is_temporary(queue):
            return self._topology.purge(queue)
        cancelled = 0
        while page := self._broker.queue.messages(lane=queue, limit=PAGE):
            self._broker.queue.cancel_many([message.id for message in page])
            cancelled += len(page)
        return cancelled

    # Publish

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Text stays text, so that people can read it in the queue."""
        if isinstance(body, str):
            return body, None
        return self.codecs["base64"].encode(body), "base64"

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any) -> None:
        self._inplace_augment_message(message, exchange, routing_key)
        queues = list(self._lookup(exchange, routing_key))
        if not queues and self.typeof(exchange).type == "direct":
            self._topology.reread()  # the queue of a reply may be new
            queues = list(self._lookup(exchange, routing_key))
        self._put_all(queues, message)

    def _put_all(self, queues: Iterable[str], message: dict[str, Any]) -> None:
        names = [name for name in queues if name]
        unknown = [name for name in names if not self._topology.exists(name)]
        if unknown and _is_reply(message):
            names = [name for name in names if name not in unknown]  # whoever asked is gone
            unknown = []
        for name in unknown:
            _check_name(name)
            self._topology.declare(name, is_temporary=False, expires_ms=None)
        mailboxes = [name for name in names if self._topology.is_temporary(name)]
        lanes = [name for name in names if name not in mailboxes]
        if len(lanes) == 1:
            new = sealed(message, lanes[0], self._options)
            self._broker.queue.enqueue(new.payload, channel=new.channel, **new.options())
        elif lanes:
            self._broker.queue.enqueue_many(sealed(message, lane, self._options) for lane in lanes)
        if mailboxes:
            self._topology.post(mailboxes, content_of(message), priority_of(message["properties"]) or 0)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self._put_all([queue], message)

    # Consume

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[[Any], object],
        consumer_tag: str,
        **kwargs: Any,
    ) -> None:
        def complete_first(message: Any) -> object:
            self._leases.complete(message.delivery_tag)
            return callback(message)

        given = complete_first if no_ack else callback
        super().basic_consume(queue, no_ack, given, consumer_tag, **kwargs)
        self.connection.look_for_mail()

    def basic_qos(
        self,
        prefetch_size: int = 0,
        prefetch_count: int = 0,
        apply_global: bool = False,
    ) -> None:
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self._wake()

    def lanes(self) -> list[str]:
        """The lanes that it consumes."""
        return [queue for queue in self._active_queues if not self._topology.is_temporary(queue)]

    def touch(self, queue: str) -> None:
        """Say that a temporary queue is still consumed, and make it again if it was deleted."""
        declared = self.connection.temporary.get(queue)
        if declared is not None:
            self._topology.declare(queue, is_temporary=True, expires_ms=declared.expires_ms)
            for binding in declared.bindings:
                self._topology.bind(binding)

    def mailboxes(self) -> list[str]:
        """The temporary queues that it consumes."""
        return [queue for queue in self._active_queues if self._topology.is_temporary(queue)]

    def received(self, deliveries: list[Delivery]) -> list[tuple[dict[str, Any], str]]:
        """The leased messages as kombu has them, each with its queue. Those that have expired are discarded,
        and those that kombu cannot read become dead letters.
        """
        found: list[tuple[dict[str, Any], str]] = []
        tags = {str(uuid4()): delivery for delivery in deliveries}
        self._leases.hold(tags)
        for tag, delivery in tags.items():
            try:
                message = opened(delivery, tag)
            except BrokenContent as error:
                self._leases.fail(tag, error.message)
                continue
            if is_expired(message):
                self._leases.discard(tag, "it has expired")
                continue
            found.append((message, delivery.lane))
        return found

    def received_mail(self, mail: list[Mail]) -> list[tuple[dict[str, Any], str]]:
        """The messages of temporary queues that have not expired."""
        messages = []
        for found in mail:
            try:
                message = message_of(found.content, str(uuid4()))
            except BrokenContent as error:
                log.warning("a message in the temporary queue %s is dropped: %s", found.queue, error.message)
                continue
            message["properties"]["delivery_info"][MAILBOX] = found.queue
            if not is_expired(message):
                messages.append((message, found.queue))
        return messages

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        if self._topology.is_temporary(queue):
            found = self.received_mail(self._topology.take([queue], 1))
        else:
            found = self.received(
                self._broker.queue.dequeue(
                    1, lease=self._leases.lease, consumer=self.connection.consumer, lanes=[queue]
                )
            )
        if not found:
            raise Empty
        return found[0][0]

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self._leases.complete(message.delivery_tag)
        return message

    # Acknowledge

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        for tag in self._up_to(delivery_tag) if multiple else [delivery_tag]:
            self._leases.complete(tag)
            self.qos.ack(tag)
        self._wake()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if self._leases.has(delivery_tag):
            if requeue:
                self._leases.requeue(delivery_tag)
            else:
                self._leases.fail(delivery_tag, "rejected by its consumer")
        elif requeue and delivery_tag in self.qos._delivered:  # noqa: SLF001 - kombu has no other way
            self._post_again(self.qos.get(delivery_tag))
        self.qos.reject(delivery_tag)
        self._wake()

    def basic_recover(self, requeue: bool = False) -> Any:
        recovered = super().basic_recover(requeue)
        self._wake()
        return recovered

    def give_back(self, messages: dict[str, Any]) -> None:
        """Give back messages that were delivered, unharmed."""
        self._leases.release(tag for tag in messages if self._leases.has(tag))
        for message in messages.values():
            self._post_again(message)

    def _wake(self) -> None:
        """There may be room for more. Tasks are also acknowledged after the channel was closed."""
        if self.connection is not None:
            self.connection.wake()

    def _up_to(self, delivery_tag: str) -> list[str]:
        tags = [tag for tag in self.qos._delivered if tag not in self.qos._dirty]  # noqa: SLF001
        return tags[: tags.index(delivery_tag) + 1] if delivery_tag in tags else []

    def _post_again(self, message: Any) -> None:
        info = message.delivery_info or {}
        if not (queue := info.get(MAILBOX)):
            return
        raw = message.serializable()
        self._topology.post([queue], content_of(raw), priority_of(raw["properties"]) or 0)


def _is_reply(message: dict[str, Any]) -> bool:
    """Whether the message answers another one: a result of Celery's backend `rpc`. A task must not be lost,
    though it has a correlation id too.
    """
    properties, headers = message["properties"], message.get("headers") or {}
    return bool(properties.get("correlation_id")) and not properties.get("reply_to") and "task" not in headers


def _check_name(queue: str) -> None:
    if len(queue.encode()) > TEXT_MAX_BYTES:
        raise InvalidField(
            f"the name of queue {queue[:40]!r}... is {len(queue.encode())} bytes long",
            f"give a name of 1 to {TEXT_MAX_BYTES} bytes",
        )
