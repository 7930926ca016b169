"""Many mappings of one tree shape at once: tables of tiles in, arrays of cost out."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.tables.cost_arrays import CostArrays as CostArrays, evaluate_many as evaluate_many
    from polymap.costmodel.tables.cost_columns import Pricing as Pricing
