"""What one change of the machine does to the optimum: a bar per resource, lowered and raised."""

from __future__ import annotations

from polymap.formatting import short, size
from polymap.networks import OtherAmount, ResourcePrice, Sensitivity
from polymap.report.figures import chart, svg
from polymap.search import caveat, weakest

_ROW = 26.0


@svg.draws(Sensitivity, "the answer")
def sensitivity_svg(answer: Sensitivity, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a row per resource: the change of the optimum with less of it (above) and with more (below).

    answer: of `pm.study.sensitivity`. What rests on a value that is not proven says so.
    """
    others = [other for price in answer.prices for other in (price.lowered, price.raised) if other is not None]
    shares = [_share(answer, other) for other in others if other.value is not None]
    told = f"{answer.workload.name} on {answer.arch.name}: {answer.objective} {_value(answer, answer.value)}"
    told += caveat(answer.status)
    title, high = "What one change of the machine costs", 2 * _ROW * len(answer.prices)
    layout = chart.new_chart(title, told, width_px, left=220, right=24, high=(high,), key=200)
    frame = layout.frame
    x = frame.x_axis([min([*shares, -5.0]), max([*shares, 5.0])])
    shapes = frame.columns(x, lambda tick: f"{tick:+,g} %" if tick else "0")
    for row, price in enumerate(answer.prices):
        top = frame.top + 2 * _ROW * row
        for other, place, colour in ((price.lowered, 0.0, chart.BOUND), (price.raised, _ROW, chart.FOUND)):
            if other is not None:
                shapes.append(svg.hint(_bar(answer, x, top + place, other, colour), _told(answer, price, other)))
        shapes += frame.row_name(top + _ROW, _name(price))
        shapes.append(svg.line(16, top, frame.right, top, stroke="#eef0f3"))
    shapes.append(svg.line(x.place(0), frame.top, x.place(0), frame.bottom, stroke=svg.INK, width=1.5))
    shapes.append(frame.across(f"change of the best {answer.objective} known"))
    key = (
        chart.KeyRow("box", chart.BOUND, "less of it (upper bar)"),
        chart.KeyRow("box", chart.FOUND, "more of it (lower bar)"),
    )
    return layout.picture(f"Sensitivity: {told}", shapes, key, answer)


def _share(answer: Sensitivity, other: OtherAmount) -> float:
    """Return the change of the objective in percent."""
    return 100 * float(other.value / answer.value - 1) if answer.value else 0.0


def _value(answer: Sensitivity, value: object) -> str:
    spelled = chart.unit_after(answer.objective)
    return f"{chart.unit_text(answer.objective)(float(value))}{spelled}"  # type: ignore[arg-type]  # a Fraction


def _name(price: ResourcePrice) -> str:
    name = price.resource.replace(".capacity_bits", " capacity").replace(".bandwidth_bits_per_cycle", " bandwidth")
    return name.replace(".per_cycle", " per cycle")


def _told(answer: Sensitivity, price: ResourcePrice, other: OtherAmount) -> str:
    amounts = (price.amount, other.amount)
    is_size = price.resource.endswith(".capacity_bits")
    before, after = (size(int(amount)) if is_size else short(float(amount)) for amount in amounts)
    value = other.lack if other.value is None else _value(answer, other.value)
    return f"{_name(price)} {after} instead of {before}: {_value(answer, answer.value)} -> {value}"


def _bar(answer: Sensitivity, x: chart.Axis, top: float, other: OtherAmount, colour: str) -> list[str]:
    zero = x.place(0)
    if other.value is None:
        return [svg.text(zero + 6, top + 17, other.lack, size=11, fill=colour)]
    share = _share(answer, other)
    end = x.place(share)
    words = "no change" if abs(share) < 0.005 else f"{share:+{'.3g' if abs(share) < 999.5 else ',.0f'}} %"
    words += caveat(weakest((other.status, answer.status)))
    bar = svg.rect(min(zero, end), top + 5, abs(end - zero), _ROW - 9, fill=colour, round_by=2)
    return [bar, svg.text(max(zero, end) + 6, top + 17, words, size=11, fill=svg.GREY)]
