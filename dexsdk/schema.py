"""Which Attributes and Channels a Flow has [FLOW-4]."""

from collections.abc import Sequence

from dexsdk.attribute import AnyAttribute, Attribute, AttributeMap
from dexsdk.channel import AnyChannel


class PersistenceSchema:
    """Every Attribute, AttributeMap, Channel and ChannelMap of a Flow; names are unique across all kinds."""

    def __init__(self, attributes: Sequence[AnyAttribute] = (), channels: Sequence[AnyChannel] = ()) -> None:
        """Declare definitions by kind."""
        self.attributes = tuple(attributes)
        self.channels = tuple(channels)

    @staticmethod
    def of(*definitions: AnyAttribute | AnyChannel) -> "PersistenceSchema":
        """Declare definitions of any kind."""
        attributes = [entry for entry in definitions if isinstance(entry, Attribute | AttributeMap)]
        channels = [entry for entry in definitions if not isinstance(entry, Attribute | AttributeMap)]
        return PersistenceSchema(attributes, channels)
