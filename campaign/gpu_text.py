# SPDX-License-Identifier: Apache-2.0
"""A row of a campaign's results as text for docs/gpu.md."""

# Keys of the place of a row, or only for readers of the JSON.
NO_VALUES = (
    "program", "figure", "row", "at", "seconds", "exit_status", "text", "stacks", "signal", "unit",
)  # fmt: skip
RATES = {
    "gigabytes_per_second": "", "of_the_driver_alone": " by the driver alone",
    "of_a_plain_loop": " by a plain loop",
}  # fmt: skip


def time_text(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def bytes_text(count):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def value_text(name, value):
    words = name.replace("_", " ")
    if value is None:  # JSON has no infinity
        return f"no {words}"
    if name.startswith("ns_"):
        return f"{words[3:]} {time_text(value)}"
    if name in RATES:
        return f"{value:.3g} GB/s{RATES[name]}"
    if name.startswith("waste"):
        return f"{value:.2f} % waste"
    if isinstance(value, float):
        return f"{value:.3g} {words}"
    if name in ("value", "outcome", "told", "why"):
        return str(value)
    if name == "count":
        return f"{value} times"
    if name == "skipped":
        return f"not applicable: {value}"
    return f"{value} {words}"


def measured_text(row):
    """The text of a row besides its name; "" if there is none."""
    values = {name: value for name, value in row.items() if name not in NO_VALUES}
    if "unit" in row:  # a benchmark: berth and its peers, in one unit
        return ", ".join(f"{name} {value:.3g} {row['unit']}" for name, value in values.items())
    if row.get("outcome") == "failed" and "text" in row:
        values["outcome"] = f"failed: {row['text'].strip()[-300:]}"
    return ", ".join(value_text(name, value) for name, value in values.items())


def cell_text(row):
    """The same for a table with many columns: median / 99th percentile (number of calls)."""
    if not {"ns_p50", "ns_p99", "count"} <= row.keys():
        return measured_text(row)
    short = f"{time_text(row['ns_p50'])} / {time_text(row['ns_p99'])} ({row['count']})"
    others = {name: row[name] for name in row if name not in ("ns_p50", "ns_p99", "count")}
    return ", ".join(filter(None, [short, measured_text(others)]))


def escaped(text):
    return str(text).replace("|", "\\|").replace("\r", " ").replace("\n", " ")
