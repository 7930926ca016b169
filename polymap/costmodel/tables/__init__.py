"""Many mappings of one tree shape at once: tables of tiles in, arrays of cost out."""
