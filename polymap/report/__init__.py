"""Reports: figure data, text, SVG and (optional) matplotlib; explain()."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
