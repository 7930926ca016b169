"""What a person looks at: figure data, then text, SVG and (optional) matplotlib; explain()."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
