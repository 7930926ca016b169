"""The closed form as expressions in the tiles of the mapping's loops."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.symbolic.derivation import formula as formula
    from polymap.costmodel.symbolic.formulas import Formula as Formula
