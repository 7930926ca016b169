from polymap.costmodel.tables.cost_arrays import evaluate_many as evaluate_many
