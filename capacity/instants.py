"""Instants as people read them, from whole seconds since the Unix epoch."""

DAY = 86_400


def clock(instant: int, now: int) -> str:
    """The time of day in UTC, with the date when it is not that of `now`: `10:40Z`, `2026-09-02 10:40Z`."""
    time = f"{instant % DAY // 3600:02d}:{instant % 3600 // 60:02d}Z"
    return time if instant // DAY == now // DAY else f"{_date(instant // DAY)} {time}"


def _date(days: int) -> str:
    """The Gregorian date. Years are counted from March, so that a leap day is the last of its year, in cycles of 400 years."""
    cycle, day = divmod(days + 719_468, 146_097)  # days from 1 March of the year 0 to 1 January 1970; days of a cycle
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    return f"{400 * cycle + year + (month >= 10):04d}-{(month + 2) % 12 + 1:02d}-{day - (153 * month + 2) // 5 + 1:02d}"
