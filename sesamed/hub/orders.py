"""What the daemon tells the process that ships, on the first line that it writes to it."""

import msgspec

from sesamed.config import Hub
from sesamed.hub.claim import Identity


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Which index goes where, as whom."""

    database: str
    hub: Hub
    identity: Identity
    progress: str


DECODE_ORDERS = msgspec.json.Decoder(Orders).decode
