"""The words of the house, as frozen data: loop nests, machines, mappings, violations; and every exception."""
