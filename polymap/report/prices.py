"""The prices of a machine's resources as text, rows and document."""

from __future__ import annotations

from fractions import Fraction

from polymap.formatting import plural, short, size, table
from polymap.networks import NextChange, OtherAmount, ResourcePrice, Sensitivity
from polymap.report.figures import unit_after, unit_text
from polymap.search import caveat, fields_document, head_document, number

_HEAD = ("resource", "now", "raised to", "value", "lowered to", "value", "worth", "d log f / d log r")
_KIB = 8192


def sensitivity_text(answer: Sensitivity) -> str:
    """Return a row per resource, and a sentence on each that binds or where a capacity first counts."""
    told = unit_text(answer.objective)
    unit = unit_after(answer.objective)
    title = f"{answer.workload.name} on {answer.arch.name}: best {answer.objective} {told(float(answer.value))}{unit}"
    rows = [_row(answer, price) for price in answer.prices]
    sentences = [text for price in answer.prices if (text := _sentence(answer, price))]
    free = [price.resource for price in answer.prices if price.binds is False]
    if free:
        sentences.append(f"Raising one of these alone changes nothing, proven: {', '.join(free)}.")
    searched = f"{plural(answer.searches, 'machine')} searched, {answer.seconds:.1f} s"
    return "\n".join((f"{title}, {answer.status}; {searched}", table(_HEAD, rows), *sentences))


def _row(answer: Sensitivity, price: ResourcePrice) -> tuple[str, ...]:
    lowered = price.lowered
    return (
        price.resource,
        _amount(price.resource, price.amount),
        _amount(price.resource, price.raised.amount),
        _value(answer, price.raised),
        "-" if lowered is None else _amount(price.resource, lowered.amount),
        "-" if lowered is None else _value(answer, lowered),
        "not proven" if price.price is None else _worth(answer, price),
        "-" if price.sensitivity is None else f"{price.sensitivity:.3g}",
    )


def _amount(resource: str, amount: Fraction) -> str:
    return size(int(amount)) if resource.endswith(".capacity_bits") else short(amount)


def _value(answer: Sensitivity, other: OtherAmount) -> str:
    if other.value is None:
        return other.lack
    return f"{unit_text(answer.objective)(float(other.value))}{caveat(other.status)}"


def _worth(answer: Sensitivity, price: ResourcePrice) -> str:
    """Return the price with its unit: per KiB, per bit and cycle, per sibling, per instance and cycle."""
    assert price.price is not None
    if not price.price:
        return "0"
    field = price.resource.rpartition(".")[2]
    per = {"capacity_bits": "KiB", "size": "sibling", "per_cycle": "instance/cycle"}.get(field, "bit/cycle")
    value = price.price * (_KIB if field == "capacity_bits" else 1)
    unit = unit_after(answer.objective)
    return f"{unit_text(answer.objective)(float(value))}{unit} per {per}"


def _sentence(answer: Sensitivity, price: ResourcePrice) -> str:
    """Return what there is to say of one resource beyond its row; "" for nothing."""
    parts: list[str] = []
    if price.binds:
        worth = "" if price.price is None else f": worth {_worth(answer, price)}"
        parts.append(f"{price.resource} binds{worth}.")
    if price.next_change is not None:
        parts.append(_change(answer, price.resource, price.next_change))
    return " ".join(parts)


def _change(answer: Sensitivity, resource: str, change: NextChange) -> str:
    if change.from_bits is None:
        return f"No larger {resource} changes the optimum."
    told = unit_text(answer.objective)
    value = "" if change.value is None else f": {told(float(change.value))}"
    if change.is_exact:
        return f"{resource} first counts at {change.from_bits:,} bits{value}."
    least = f"{change.none_to_bits or 0:,}"
    return f"{resource} first counts above {least} and at {change.from_bits:,} bits at the latest{value}."


def sensitivity_rows(answer: Sensitivity) -> list[dict[str, object]]:
    """Return a row per resource, amounts and values as floats."""
    return [
        {
            "resource": price.resource,
            "amount": float(price.amount),
            "raised_to": float(price.raised.amount),
            "raised_value": _plain(price.raised.value),
            "raised_status": price.raised.status,
            "lowered_to": None if price.lowered is None else float(price.lowered.amount),
            "lowered_value": None if price.lowered is None else _plain(price.lowered.value),
            "lowered_status": None if price.lowered is None else price.lowered.status,
            "binds": price.binds,
            "price": _plain(price.price),
            "sensitivity": price.sensitivity,
            "no_change_up_to_bits": None if price.next_change is None else price.next_change.none_to_bits,
            "change_at_bits": None if price.next_change is None else price.next_change.from_bits,
        }
        for price in answer.prices
    ]


def _plain(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def sensitivity_document(answer: Sensitivity) -> dict[str, object]:
    """Return the answer and its question."""
    own = {"objective": answer.objective, "tiles": answer.tiles, "status": answer.status}
    prices = [fields_document(each) for each in answer.prices]
    rows = {"value": number(answer.value), "prices": prices, "searches": answer.searches, "seconds": answer.seconds}
    return head_document("sensitivity", answer.workload, answer.arch) | own | rows
