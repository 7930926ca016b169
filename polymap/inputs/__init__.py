"""What users write, read strictly: files, JSON and TOML texts, names and numbers; every mistake with its place."""
