"""Files of Timeloop and Accelergy, both ways: versions 0.2 to 0.4, and what their front ends write."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.importers.timeloop.expressions import tree_of as tree_of, value_of as value_of
    from polymap.importers.timeloop.findings import FileWarning as FileWarning, Findings as Findings, Place as Place
    from polymap.importers.timeloop.yaml_tables import Files as Files, Record as Record, Value as Value
