"""RFC 3339 instants as exact numbers of a field's units, whatever digits they have [SEARCH-2]."""

import re
from datetime import date

_FORM = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[Tt](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:\.(?P<fraction>\d+))?(?P<zone>[Zz]|(?P<sign>[+-])(?P<zone_hour>\d\d):(?P<zone_minute>\d\d))",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1).toordinal()


def parse_instant(text: str, fraction_digits: int) -> tuple[int, bool] | None:
    """Read an instant; None if the text is none.

    Returns:
        Units of 10^-fraction_digits seconds since the epoch, rounded down, and whether that is exact.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"])
    zone_hour, zone_minute = int(found["zone_hour"] or 0), int(found["zone_minute"] or 0)
    if hour > 23 or minute > 59 or second > 59 or zone_hour > 23 or zone_minute > 59:
        return None
    try:
        day = date(int(found["year"]), int(found["month"]), int(found["day"])).toordinal()
    except ValueError:
        return None
    offset = (zone_hour * 60 + zone_minute) * 60
    seconds = ((day - _EPOCH) * 24 + hour) * 3600 + minute * 60 + second
    seconds -= -offset if found["sign"] == "-" else offset
    fraction = found["fraction"] or ""
    units = int(fraction[:fraction_digits].ljust(fraction_digits, "0"))
    return seconds * 10**fraction_digits + units, not fraction[fraction_digits:].strip("0")
