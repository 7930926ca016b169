from polymap.costmodel.tables.cost_arrays import CostArrays as CostArrays, TileTables as TileTables
