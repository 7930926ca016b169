"""What a person looks at: figure data, then text, SVG and (optional) matplotlib; explain()."""
