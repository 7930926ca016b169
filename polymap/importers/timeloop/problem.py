"""Timeloop's problems as workloads: dimensions, coefficients and data spaces of a shape, sizes of an instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from polymap.importers.timeloop.expressions import check_numbers, resolved
from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.yaml_tables import Value, read_yaml
from polymap.inputs import shown
from polymap.ir import Workload, did_you_mean
from polymap.workload import einsum

_SHAPE = ("name", "dimensions", "coefficients", "data_spaces", "version")
_SPACE = ("name", "projection", "read_write")
_DENSITIES = ("densities", "commonDensity")
# What files say of the input beside the dims: it follows from these.
_BESIDE = ("H", "W", "D", "Hpad", "Wpad", "Dpad")
# Of a problem, beside its shape and sizes: no count depends on them.
_DESCRIPTIONS = ("version", "name", "dnn_name", "notes", "histograms")
# Timeloop's own shape, where a problem of version 0.2 or 0.3 names it or names none.
_CONVOLUTIONS = ("cnn_layer", "cnn-layer")
_CONVOLUTION = """
name: cnn_layer
dimensions: [R, S, P, Q, C, K, N]
coefficients:
- {name: Wstride, default: 1}
- {name: Hstride, default: 1}
- {name: Wdilation, default: 1}
- {name: Hdilation, default: 1}
data_spaces:
- {name: Weights, projection: [[[C]], [[K]], [[R]], [[S]]]}
- {name: Inputs, projection: [[[N]], [[C]], [[R, Wdilation], [P, Wstride]], [[S, Hdilation], [Q, Hstride]]]}
- {name: Outputs, projection: [[[N]], [[K]], [[Q]], [[P]]], read_write: true}
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """where: the shape; sizes: of dims; texts: the access to each data space, by its name; written: its name."""

    where: Value
    title: str
    sizes: dict[str, int]
    texts: dict[str, str]
    written: str

    @property
    def names(self) -> list[str]:
        """The data spaces."""
        return list(self.texts)

    def workload(self, bits: int) -> Workload:
        """Return the workload, of elements of so many bits."""
        inputs = [text for name, text in self.texts.items() if name != self.written]
        words = {name: "weight" if name.lower().startswith("w") else "input" for name in self.texts}
        roles = {name: word for name, word in words.items() if name != self.written}
        text = f"{self.texts[self.written]} += {' * '.join(inputs)}"
        with self.where.blamed("the shape is no loop nest that is read: "):
            return einsum(text, bits=bits, roles=roles, sizes=self.sizes, name=self.title)


def problem_of(
    problem: Value, find_shape: Callable[[str], Value | None], variables: dict[str, object], told: Findings
) -> Problem:
    """Return what stands under the key `problem`. find_shape: looks for the file of a shape that is given by its name;
    variables: what expressions of sizes may name.
    Raises InputError (PM661) with the line of what is not read."""
    fields = {name: value for name, value in problem.table("problem").items() if name not in _DESCRIPTIONS}
    shape_given = fields.pop("shape", None)
    if "instance" in fields:
        instance = problem.fields("problem", (*_DESCRIPTIONS, "shape", "instance"), told)["instance"]
    else:  # before version 0.4: sizes stand beside the shape
        instance = Value(fields, problem.place)
    if not fields:
        raise problem.refuse("the problem has no instance")
    whole = _shape(shape_given, problem, find_shape)
    shape = whole.fields("shape", _SHAPE, told, ("dimensions", "data_spaces"))
    dims = _once(shape.listed("dimensions"), "a dimension")
    given = Value(resolved(instance.table("instance"), dict(variables)), instance.place)
    sizes = _sizes(dims, shape.get("coefficients"), given, told)
    texts, written = _data_spaces(shape["data_spaces"], dims, sizes)
    if len(written) != 1 or len(texts) < 2:
        what = f"{len(written)} data spaces are read_write, {len(texts) - len(written)} are read only"
        raise shape["data_spaces"].refuse(what, "Expected one that is written and at least one that is read.")
    title = shape.text("name", "problem")
    return Problem(whole, title, {dim: sizes[dim] for dim in dims}, texts, written[0])


def _shape(given: Value | None, problem: Value, find_shape: Callable[[str], Value | None]) -> Value:
    """Return the shape, where it is given by its name from Timeloop's own or from a file of that name."""
    if given is None and "instance" in problem.table("problem"):
        raise problem.refuse("the problem has no shape")
    if given is not None and not isinstance(given.plain, str):
        return given
    name = "cnn_layer" if given is None else given.text("shape")
    if name in _CONVOLUTIONS:
        return read_yaml(_CONVOLUTION)
    found = find_shape(name)
    if found is None:
        hint = f"Give the folder of {name}.yaml, folders=[...], or write the shape out."
        raise (given or problem).refuse(f"there is no file of the shape {shown(name)}", hint)
    return found.table("the file").get("shape", found)


def _once(values: list[Value], what: str) -> list[str]:
    """Return the texts, each of which stands there once."""
    found: list[str] = []
    for value in values:
        if value.text(what) in found:
            raise value.refuse(f"{what} {value.told()} is given twice")
        found.append(value.text(what))
    return found


def _sizes(dims: list[str], coefficients: Value | None, instance: Value, told: Findings) -> dict[str, int]:
    """Return the sizes of dims and coefficients; these may have defaults."""
    sizes: dict[str, int] = {}
    known = list(dims)
    for each in [] if coefficients is None else coefficients.items("coefficients"):
        fields = each.fields("coefficient", ("name", "default"), told, ("name",))
        name = fields.text("name")
        if name in known:
            raise each.refuse(f"the coefficient {shown(name)} is given twice, or named like a dimension")
        known.append(name)
        if "default" in fields:
            sizes[name] = fields.integer("default", 0)
    for name, value in instance.table("instance").items():
        if name in known:
            with told.collecting():
                check_numbers({name: value}, "instance.{}".format)
                sizes[name] = value.integer(f"instance.{name}", 1 if name in dims else 0)
        else:
            _tell_beside(name, value, known, told)
    missing = [name for name in known if name not in sizes]
    if missing and not told.has_mistakes:
        raise instance.refuse(f"the instance has no size of {', '.join(missing)}")
    return sizes | dict.fromkeys(missing, 1)


def _tell_beside(name: str, value: Value, known: list[str], told: Findings) -> None:
    """Tell what an instance says beside the sizes of the shape."""
    what = f"instance.{name} is no dimension or coefficient of the shape (it is {value.told()})"
    if name in _DENSITIES:
        if value.plain:
            told.note(value.place, f"instance.{name} is not read", "Tensors are dense here: counts are of dense ones.")
    elif name in _BESIDE:
        told.note(value.place, what, "Sizes of the input follow from the dimensions.")
    else:
        told.no_equal(value.place, what, did_you_mean(name[:64], known))


def _data_spaces(spaces: Value, dims: list[str], sizes: dict[str, int]) -> tuple[dict[str, str], list[str]]:
    """Return the access to each data space, by its name, and the names of those that are written."""
    texts: dict[str, str] = {}
    written: list[str] = []
    for space in spaces.items("data_spaces"):
        one = space.fields("data space", _SPACE, needed=_SPACE[:2])
        name = one.text("name")
        if name in texts:
            raise one["name"].refuse(f"the data space {shown(name)} is given twice")
        axes = [_axis(axis, dims, sizes) for axis in one.listed("projection")]
        texts[name] = f"{name}[{', '.join(axis for axis in axes if axis)}]"
        if "read_write" in one and one["read_write"].flag(f"read_write of {name}"):
            written.append(name)
    return texts, written


def _axis(axis: Value, dims: list[str], sizes: dict[str, int]) -> str:
    """Return an axis of a projection, a dim or a list of [dim] and [dim, coefficient], as an index; "" of one element,
    where all coefficients are 0."""
    terms: list[str] = []
    for term in [axis] if isinstance(axis.plain, str) else axis.items("an axis of a projection"):
        factors = [term] if term is axis else term.items("a term of a projection")
        words = [each.text("a factor of a projection") for each in factors]
        if len(words) not in (1, 2) or words[0] not in dims or any(w in dims or w not in sizes for w in words[1:]):
            raise term.refuse(f"the term {words} is not read", "Expected [DIMENSION] or [DIMENSION, COEFFICIENT].")
        factor = sizes[words[1]] if len(words) == 2 else 1
        terms.append(words[0] if factor == 1 else f"{factor}*{words[0]}" if factor else "")
    if not terms:
        raise axis.refuse("an axis of a projection is empty")
    return " + ".join(term for term in terms if term)
