from polymap.costmodel.simulator.walk import count_by_simulation as count_by_simulation
