from polymap.costmodel.tables.cost_arrays import (
    CostArrays as CostArrays,
    TileTables as TileTables,
    evaluate_many as evaluate_many,
)
