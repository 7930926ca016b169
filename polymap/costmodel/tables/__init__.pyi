from polymap.costmodel.tables.cost_arrays import CostArrays as CostArrays, evaluate_many as evaluate_many
